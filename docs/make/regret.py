"""Writes docs/evidence/regret.md and its picture: exact regret of tabular agents on a river, beside proved bounds.

python docs/make/regret.py      takes about two minutes
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter

from forage.environments.tabular.makers import river_swim
from forage.evaluation.look import DASHES, PALETTE, QUIET, count_label, head, sheet, style
from forage.evaluation.plots import label_ends
from forage.evaluation.statistics import score
from forage.studies.regret import regret
from forage_papers.agents.tabular.psrl import PSRL
from forage_papers.agents.tabular.ucbvi import UCBVI, bound

HERE = Path(__file__).parents[1]
STATES, ACTIONS, HORIZON, EPISODES, SEEDS = 6, 2, 20, 4000, range(2000, 2005)
AGENTS: dict[str, Any] = {
    "posterior sampling": PSRL(),
    "UCBVI, Bernstein, 0.002 of the bonus": UCBVI(bonus_scale=0.002),
    "UCBVI, Bernstein, 0.01 of the bonus": UCBVI(bonus_scale=0.01),
    "UCBVI, Hoeffding, 0.01 of the bonus": UCBVI(bonus="hoeffding", bonus_scale=0.01),
    "UCBVI, Bernstein, the proof's bonus": UCBVI(),
    "UCBVI without a bonus": UCBVI(bonus_scale=0.0),
}


def main() -> None:
    mdp = river_swim(STATES, max_steps=HORIZON)
    found = {name: regret(agent, mdp, EPISODES, list(SEEDS)).cumsum(1) for name, agent in AGENTS.items()}
    number = np.arange(1, EPISODES + 1)
    bounds = {kind: np.asarray(bound(kind, STATES, ACTIONS, HORIZON, number)) for kind in ("hoeffding", "bernstein")}
    draw(number, found)
    (HERE / "evidence" / "regret.md").write_text(page(found, bounds))


def draw(number: np.ndarray, found: dict[str, np.ndarray]) -> None:
    """Draw the regret of all agents, each with its name at its line's end, and that of one who never learns."""
    figure = sheet(8.6, 4.4)
    axes = figure.add_subplot()
    labels = []
    for index, (name, total) in enumerate(found.items()):
        color, middle = PALETTE[index], total.mean(0)
        axes.fill_between(number, total.min(0), total.max(0), color=color, alpha=0.16, linewidth=0)
        axes.plot(number, middle, color=color, linewidth=2)
        labels.append((name, float(middle[-1]), color, "bold"))
    missed = HORIZON * number
    axes.plot(number, missed, color=QUIET, linestyle=DASHES[1], linewidth=1)
    labels.append(("1 missed at every step", float(missed[-1]), QUIET, "normal"))
    style(axes, "regret so far", "episodes")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1, number[-1])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(count_label))
    said = f"mean of {len(SEEDS)} seeds, shaded from the least to the most of them"
    head(axes, f"Regret on RiverSwim-{STATES}", [said, "the bounds of the proofs, above 1B, are beyond the picture"])
    label_ends(figure, axes, labels)
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
        "![Regret so far by episodes, on logarithmic scales](../pictures/regret.png)",
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
        lines.append(f"| bound, {kind.capitalize()} | {most[EPISODES // 10 - 1]:.3g} | {most[-1]:.3g} | |")
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
