"""How robust is an agent? Its return on a grid of physics, at the worst of it, and under five kinds of randomness.

PPO on CartPole, trained in one physics and in drawn ones. The grid and its worst case are those of Zouitine et al.
(2024), "RRLS: Robust Reinforcement Learning Suite", arXiv 2406.08406; the kinds of randomness those of Barsainyan et
al. (2025), "STORI: A Benchmark and Taxonomy for Stochastic Environments", arXiv 2509.01793. Noise of the reward
changes nothing that the agent does here, as it learns no more: it only shows what of the return is lost.
"""

from pathlib import Path

import numpy as np

import forage
from forage.evaluation.conditions import Cell, maps
from forage.evaluation.look import FAINT, INK, PALETTE, QUIET, caption, sheet, style
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
    """A map of the grid for each agent, and dots for the kinds of randomness."""
    figure = sheet(13, 4.4)
    left, right = figure.subfigures(1, 2, width_ratios=(3, 2))
    cells = {
        f"trained in {name}": [Cell(name, point.fields, point.score) for point in result.points]
        for name, result in grids.items()
    }
    maps(left, cells, list(grid))
    axes = right.add_subplot()
    for number, (name, result) in enumerate(kinds.items()):
        scores = [point.score for point in result.points]
        rows, color = np.arange(len(KINDS)) + 0.2 * (number - 0.5), PALETTE[number]
        for row, one in zip(rows, scores, strict=True):
            if one.low is not None and one.high is not None:
                axes.plot([one.low, one.high], [row, row], color=color, linewidth=2)
        axes.plot([one.value for one in scores], rows, "o", color=color, label=f"trained in {name}")
    style(axes, "", "return")
    axes.grid(axis="x", color=FAINT, linewidth=0.8)
    axes.set_yticks(range(len(KINDS)), list(KINDS), color=INK)
    axes.set_ylim(len(KINDS) - 0.5, -0.5)
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    said = caption([scores[0].seeds], "as bars")
    figure.suptitle("PPO on CartPole in other physics", x=0.01, ha="left", color=INK, fontsize=12, fontweight="bold")
    figure.supxlabel(f"return, {said}", x=0.01, ha="left", color=QUIET, fontsize=8.5)
    figure.savefig(path)
    return path


if __name__ == "__main__":
    main()
