"""Writes docs/regret.md and its picture: exact regret of tabular agents on a river, beside the bounds that are proved.

python docs/make/regret.py      takes about two minutes
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from forage.agents.tabular.psrl import PSRL
from forage.agents.tabular.ucbvi import UCBVI, bound
from forage.environments.tabular.makers import river_swim
from forage.evaluation.plots import DASHES, INK, PALETTE, QUIET, style
from forage.evaluation.statistics import score
from forage.studies.regret import regret

HERE = Path(__file__).parents[1]
STATES, ACTIONS, HORIZON, EPISODES, SEEDS = 6, 2, 20, 4000, range(2000, 2005)
AGENTS: dict[str, Any] = {
    "posterior sampling": PSRL(),
    "UCBVI, bernstein, 0.002 of the bonus": UCBVI(bonus_scale=0.002),
    "UCBVI, bernstein, 0.01 of the bonus": UCBVI(bonus_scale=0.01),
    "UCBVI, hoeffding, 0.01 of the bonus": UCBVI(bonus="hoeffding", bonus_scale=0.01),
    "UCBVI, bernstein, the bonus of the proof": UCBVI(),
    "UCBVI without a bonus": UCBVI(bonus_scale=0.0),
}


def main() -> None:
    mdp = river_swim(STATES, max_steps=HORIZON)
    found = {name: regret(agent, mdp, EPISODES, list(SEEDS)).cumsum(1) for name, agent in AGENTS.items()}
    number = np.arange(1, EPISODES + 1)
    bounds = {kind: np.asarray(bound(kind, STATES, ACTIONS, HORIZON, number)) for kind in ("hoeffding", "bernstein")}
    draw(number, found, bounds)
    (HERE / "regret.md").write_text(page(found, bounds))


def draw(number: np.ndarray, found: dict[str, np.ndarray], bounds: dict[str, np.ndarray]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.6), dpi=150, layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    for index, (name, total) in enumerate(found.items()):
        color = PALETTE[index % len(PALETTE)]
        axes.fill_between(number, total.min(0), total.max(0), color=color, alpha=0.18, linewidth=0)
        axes.plot(number, total.mean(0), color=color, linewidth=1.8, label=name)
    for index, (kind, most) in enumerate(bounds.items()):
        axes.plot(number, most, color=QUIET, linestyle=DASHES[index + 1], linewidth=1.4, label=f"bound, {kind}")
    axes.plot(number, HORIZON * number, color=INK, linestyle=(0, (1, 3)), linewidth=1.2, label="1 missed at every step")
    style(axes, "regret so far", "episodes")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend(frameon=False, fontsize=7.5, labelcolor=INK, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(HERE / "pictures" / "regret.png")


def page(found: dict[str, np.ndarray], bounds: dict[str, np.ndarray]) -> str:
    lines = [
        "# Regret",
        "",
        "What an agent misses while it learns, exactly: in a tabular MDP the value of each episode's policy and of",
        "the best one follow from the arrays.",
        "",
        "    regret after K episodes = sum_k E[V*_1(s_1)] - E[V^(pi_k)_1(s_1)]",
        "",
        "```python",
        "from forage.agents.tabular.psrl import PSRL",
        "from forage.environments.tabular.makers import river_swim",
        "from forage.studies.regret import regret",
        "",
        "missed = regret(PSRL(), river_swim(6, max_steps=20), episodes=1000, seeds=range(5))  # [seed, episode]",
        "```",
        "",
        f"RiverSwim of {STATES} states, episodes of {HORIZON} steps, {len(SEEDS)} seeds; bands from the least to the",
        "most of them. Made by `python docs/make/regret.py`.",
        "",
        "![Regret so far by episodes, on logarithmic scales](pictures/regret.png)",
        "",
        f"| agent | regret after {EPISODES // 10:,} | after {EPISODES:,} episodes | missed in the last one |",
        "|---|---|---|---|",
    ]
    for name, total in found.items():
        early, late = score(total[:, EPISODES // 10 - 1]), score(total[:, -1])
        last = np.diff(total, axis=1)[:, -1].mean()
        lines.append(
            f"| {name} | {early.value:.1f} [{early.low:.1f}, {early.high:.1f}] | {late.value:.1f} "
            f"[{late.low:.1f}, {late.high:.1f}] | {last:.4f} |"
        )
    for kind, most in bounds.items():
        lines.append(f"| bound, {kind} | {most[EPISODES // 10 - 1]:.3g} | {most[-1]:.3g} | |")
    lines += [
        "",
        "Interquartile means with 95 % bootstrap intervals. The bounds are far above what missing 1 at every step",
        "comes to in so few episodes: their constants are those of a proof. With the bonus of the proof no plan",
        "changes yet, because everything seems to be worth the most there is; a five-hundredth of it is enough to",
        "find the far bank.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
