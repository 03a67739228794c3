"""How robust is an agent? Its return on a grid of physics, at the worst of it, and under five kinds of randomness.

PPO on CartPole, trained in one physics and in drawn ones. The grid and its worst case are those of Zouitine et al.
(2024), "RRLS: Robust Reinforcement Learning Suite", arXiv 2406.08406; the kinds of randomness those of Barsainyan et
al. (2025), "STORI: A Benchmark and Taxonomy for Stochastic Environments", arXiv 2509.01793. Noise of the reward
changes nothing that the agent does here, as it learns no more: it only shows what of the return is lost.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import forage
from forage.evaluation.plots import PALETTE
from forage.evaluation.statistics import interquartile_mean
from forage.studies.robustness import Robustness
from forage.tasks.contexts import Contexts

SETTINGS = {"one physics": {}, "drawn physics": {"tasks": Contexts(("length=0.25:2.0", "force=5:20"))}}
KINDS = {
    "nothing": "",
    "actions": "action-noise:0.3",
    "rewards": "reward-noise:0:0.25",
    "observations": "observation-noise:0.05:0.1",
    "missing entries": "missing:0.25",
    "drift": "drift:length:3:100",
}


def main(
    steps: int = 200_000, seeds: int = 5, directory: str = "runs/robustness", episodes: int = 20, points: int = 7
) -> None:
    grid = {"length": np.linspace(0.25, 4.0, points), "force": np.linspace(5.0, 30.0, points)}
    grids, kinds = {}, {}
    for name, setting in SETTINGS.items():
        path = Path(directory) / name.replace(" ", "-")
        run = forage.train("ppo", "CartPole-v1", steps=steps, seeds=seeds, directory=path, **setting)
        grids[name] = forage.evaluate_under(run.directory, grid, episodes=episodes)
        kinds[name] = forage.evaluate_under(run.directory, under=[w for w in KINDS.values() if w], episodes=episodes)
        worst = ", ".join(f"{field} {value:g}" for field, value in grids[name].worst_point.fields.items())
        print(f"{name}: return {grids[name].mean} on the grid, {grids[name].worst_case} at worst ({worst})")
    print(f"\n{'return under':16}", *(f"{name:40}" for name in SETTINGS))
    for number, kind in enumerate(KINDS):
        print(f"{kind:16}", *(f"{result.points[number].score!s:40}" for result in kinds.values()))
    print(draw(Path(directory) / "curve.png", grid, grids, kinds))


def draw(path: Path, grid: dict, grids: dict[str, Robustness], kinds: dict[str, Robustness]) -> Path:
    """A map of the grid for each agent, and bars for the kinds of randomness."""
    figure = Figure(figsize=(12, 4), dpi=150, layout="constrained")
    axes = figure.subplots(1, len(grids) + 1)
    (rows, lengths), (columns, forces) = grid.items()
    for axis, (name, result) in zip(axes, grids.items(), strict=False):
        values = np.array([interquartile_mean(np.array(point.returns)) for point in result.points])
        image = axis.pcolormesh(forces, lengths, values.reshape(len(lengths), len(forces)), vmin=0, vmax=500)
        axis.set(title=f"trained in {name}", xlabel=columns, ylabel=rows)
    figure.colorbar(image, ax=axes[:-1], label="return")
    height = 0.8 / len(kinds)
    for number, (name, result) in enumerate(kinds.items()):
        scores = [point.score for point in result.points]
        values = np.array([s.value for s in scores])
        ends = [(s.value, s.value) if s.low is None or s.high is None else (s.low, s.high) for s in scores]
        errors = np.abs(np.array(ends) - values[:, None]).T
        look = {"color": PALETTE[number], "label": f"trained in {name}"}
        axes[-1].barh(np.arange(len(KINDS)) + number * height, values, height, xerr=errors, **look)
    axes[-1].set_yticks(np.arange(len(KINDS)) + 0.2, list(KINDS))
    axes[-1].invert_yaxis()
    axes[-1].set(title="under randomness", xlabel="return")
    figure.legend(loc="outside lower right", fontsize=8, ncols=2)
    figure.savefig(path)
    return path


if __name__ == "__main__":
    main()
