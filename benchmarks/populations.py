"""Does a population find its learning rate while it trains? PBT beside eight fixed rates on Acrobot.

    python benchmarks/populations.py --list     # cells: arm/repeat, and which are done
    python benchmarks/populations.py            # train all that is missing
    python benchmarks/populations.py --table    # results/POPULATIONS.md and populations.png, from populations.json

Eight members of PPO each, every one trained for 100,000 steps and evaluated on 16 episodes after every twentieth.
The fixed ones have eight rates from 1e-5 to 1e-1, evenly apart in their logarithm; those of PBT draw theirs from the
same range, and change them as `forage tune --method pbt` does. What is running when the process ends is lost.

Five repeats came first and left open whether PBT is ahead of the best rate in the first half (-3.7 to 25.2). The table
is of the fifteen that were made for this question then, with other seeds.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import cells
import matplotlib.pyplot as plt
import numpy as np

from forage.config.resolve import resolve
from forage.config.run_config import RunConfig
from forage.evaluation.statistics import student_interval
from forage.studies.tuning import population
from forage.studies.tuning.batch import Batch
from forage.studies.tuning.space import parse_range

RESULTS = Path(__file__).parent / "results" / "populations.json"
STEPS, MEMBERS, EPISODES = 100_000, 8, 16
EARLIER, REPEATS = range(5), range(5, 20)
RATES = np.geomspace(1e-5, 1e-1, MEMBERS).tolist()
CELLS = [f"{arm}/{repeat}" for repeat in (*EARLIER, *REPEATS) for arm in ("fixed", "pbt")]
FIRST_HALF = population.PARTS // 2


def setup() -> RunConfig:
    """Return what is trained but for the learning rate."""
    return resolve("ppo", "Acrobot-v1", seeds=1, steps=STEPS, evaluation_actions="greedy")


def train(cell: str) -> dict[str, Any]:
    """Train eight members. Return each part's steps, evaluation returns and learning rates, leaves `part member`."""
    arm, _, repeat = cell.partition("/")
    seeds = [9000 + 100 * int(repeat) + member for member in range(MEMBERS)]
    rows: list[dict[str, Any]] = []
    if arm == "pbt":
        with tempfile.TemporaryDirectory() as folder:
            space = [parse_range("learning_rate=1e-5:1e-1:log", setup())]
            path = Path(folder) / "population.jsonl"
            population.evolve(setup(), space, seeds, EPISODES, path, rows.append, chance=int(repeat))
    else:
        batch = Batch(setup(), [{"learning_rate": rate} for rate in RATES], seeds, EPISODES)
        for part in range(1, population.PARTS + 1):
            batch.advance(part / population.PARTS)
            rows.append({"steps": batch.steps, "values": batch.evaluate().tolist(), "settings": batch.settings})
        batch.close()
    return {
        "steps": [row["steps"] for row in rows],
        "returns": [[-500.0 if value is None else value for value in row["values"]] for row in rows],
        "rates": [[settings["learning_rate"] for settings in row["settings"]] for row in rows],
    }


def curves(found: dict[str, Any], arm: str) -> np.ndarray:
    """Return the evaluation returns of an arm, `repeat part member`."""
    return np.array([found[f"{arm}/{repeat}"]["returns"] for repeat in REPEATS])


def table(found: dict[str, Any]) -> str:
    """Return the page, once all is trained."""
    pbt, fixed = curves(found, "pbt"), curves(found, "fixed")
    half, whole = slice(0, FIRST_HALF), slice(0, None)
    lines = [
        "# A population beside fixed rates",
        "",
        "`python benchmarks/populations.py` trains what is missing: PPO on Acrobot-v1 (returns from -500, better near",
        f"-70), {MEMBERS} members of {STEPS:,} steps each, {len(REPEATS)} repeats. Means of the evaluation returns",
        "over the parts of a run, with Student's 95 % interval over repeats. *Best of eight at each moment* takes the",
        "highest of the eight evaluations of each part, for both arms alike; *the best rate* is the fixed one whose",
        "mean over these parts is highest, chosen afterwards in each repeat. Five repeats that came before these left",
        "the first half undecided, and are not in the table.",
        "",
        "![curves](populations.png)",
        "",
        "| | first half | whole run |",
        "|---|---|---|",
    ]
    told = {
        "PBT, best of eight at each moment": [pbt[:, part].max(2).mean(1) for part in (half, whole)],
        "PBT, mean of eight": [pbt[:, part].mean((1, 2)) for part in (half, whole)],
        "fixed, best of eight at each moment": [fixed[:, part].max(2).mean(1) for part in (half, whole)],
        "fixed, the best rate": [fixed[:, part].mean(1).max(1) for part in (half, whole)],
        "fixed, mean of eight": [fixed[:, part].mean((1, 2)) for part in (half, whole)],
    }
    for name, values in told.items():
        lines.append(f"| {name} | {' | '.join(cells.with_interval(value) for value in values)} |")
    lines.append("")
    ahead = told["PBT, best of eight at each moment"]
    for rival in ("fixed, best of eight at each moment", "fixed, the best rate"):
        for number, name in enumerate(("first half", "whole run")):
            low, high = student_interval(ahead[number] - told[rival][number])
            verdict = "policy_lag" if low > 0 else "behind" if high < 0 else "no difference seen"
            lines.append(f"- PBT less *{rival}*, {name}: [{low:.1f}, {high:.1f}], {verdict}.")
    return "\n".join(lines) + "\n"


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw the best of eight at each moment, the best rate, and the rates of the populations."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    steps = found["pbt/0"]["steps"]
    pbt, fixed = curves(found, "pbt"), curves(found, "fixed")
    best = np.array([one[:, one[:FIRST_HALF].mean(0).argmax()] for one in fixed])
    for name, lines in {"PBT": pbt.max(2), "fixed, best of eight": fixed.max(2), "fixed, the best rate": best}.items():
        (line,) = left.plot(steps, lines.mean(0), label=name)
        left.plot(steps, lines.T, color=line.get_color(), alpha=0.2, linewidth=0.8)
    left.set(xlabel="steps of each member", ylabel="evaluation return")
    left.legend(frameon=False)
    for number, repeat in enumerate(REPEATS):
        rates = np.array(found[f"pbt/{repeat}"]["rates"])
        right.plot(steps, rates, color=f"C{number % 10}", alpha=0.5, linewidth=0.8)
    right.set(xlabel="steps of each member", ylabel="learning rates of the populations", yscale="log")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Train what is missing, list it, or make the page, once all is trained."""

    def page(found: dict[str, Any]) -> None:
        if all(f"{arm}/{repeat}" in found for repeat in REPEATS for arm in ("fixed", "pbt")):
            draw(found, RESULTS.with_name("populations.png"))
            RESULTS.with_name("POPULATIONS.md").write_text(table(found))

    cells.work(__file__, RESULTS, CELLS, cells.parser(__doc__).parse_args(), train, page)


if __name__ == "__main__":
    main()
