"""What is left of what was learned from data once a policy learns online? Curves through the hand-over, by method.

    python benchmarks/handover.py --list                # cells: task/method, and which are done
    python benchmarks/handover.py                       # train all that is missing
    python benchmarks/handover.py --only pendulum       # cells whose names begin so, in this order
    python benchmarks/handover.py --table               # results/HANDOVER.md and handover.png, from handover.json

The data are fifty episodes of a rule, from random actions to its own (`mixed` of offline.py). Each method makes 5,000
updates from them, and goes on for 2,500 steps of the environment, with the learning rates of the papers, which are
smaller; five seeds in one process. Every 250 steps it plays
fifty episodes in the maze, where an episode is solved or not, and ten of the pendulum. The normalised score is 0 for
random actions and 100 for the rule. What is running when the process ends is lost; what is done stays.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import cells
import matplotlib.pyplot as plt
import numpy as np
import offline

import forage
from forage.config.resolve import resolve
from forage.data import files
from forage.evaluation.statistics import student_interval
from forage.memory.mixed import MixedReplay
from forage.memory.uniform import UniformReplay
from forage.rewards.scaling import Scale
from forage.runs.starting import handover_record

RESULTS = Path(__file__).parent / "results" / "handover.json"
STEPS, EVERY = 2500, 250
EPISODES = {"maze": 50, "pendulum": 10}  # of an evaluation, by task
SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "learning_rate": 1e-3, "batch_size": 256}
KIT = SMALL | {"critics": 5, "critic_norm": "layer"}
CALM = offline.CALIBRATED
FLOWS = KIT | {"candidates": 4, "edited": 4, "flow_steps": 5, "updates_per_rollout": 2, "policy_delay": 2}
GENTLY = {"learning_rate": 3e-4}
SOON = GENTLY | {"learning_starts": 256}
STEERED = {"critic_norm": "layer", "updates_per_rollout": 4}
LOW = {"policy_q": "mean", "target_subset": 2, "updates_per_rollout": 2, "policy_delay": 2}


class Method(NamedTuple):
    """Who learns from the data, and who goes on."""

    before: str
    offline: dict[str, Any]
    agent: str
    online: dict[str, Any]
    with_data: bool = False  # half of each batch online is from the data
    corrects: bool = False  # what was learned from the data stays as it is, the best of the five, and is corrected


METHODS: dict[str, Method] = {
    "SAC-N, then SAC": Method("sac-n", KIT, "sac", KIT | LOW | SOON),
    "SAC-N, then SAC with data": Method("sac-n", KIT, "sac", KIT | LOW | SOON, True),
    "SAC-N, then WSRL": Method("sac-n", KIT, "wsrl", KIT | LOW | GENTLY | {"learning_starts": 500}),
    "TD3+BC, then TD3": Method("td3-bc", SMALL, "td3", SMALL | SOON),
    "TD3+BC, then TD3 with data": Method("td3-bc", SMALL, "td3", SMALL | SOON, True),
    "FQL throughout": Method("fql", SMALL, "fql", SMALL | SOON, True),
    "FQL, then DSRL": Method("fql", SMALL, "dsrl", SMALL | SOON | STEERED, False, True),
    "Cal-QL throughout": Method("cal-ql", CALM, "cal-ql", CALM | SOON | {"policy_learning_rate": 1e-4}, True),
    "Cal-QL, then SAC": Method("cal-ql", CALM, "sac", SMALL | SOON),
    "Cal-QL, then WSRL": Method("cal-ql", CALM, "wsrl", SMALL | GENTLY | {"learning_starts": 500}),
    "IQL throughout": Method("iql", SMALL, "iql", SMALL | GENTLY | {"anneal_policy": False}, True),
    "IQL, then residual TD3": Method(
        "iql", SMALL, "residual-td3", SMALL | SOON | {"updates_per_rollout": 2, "critic_warmup": 1000}, True, True
    ),
    "EXPO throughout": Method("expo", FLOWS, "expo", FLOWS | SOON, True),
    "E2O": Method("e2o", KIT, "e2o", KIT | SOON, True),
    "RO2O": Method("ro2o", KIT, "ro2o", KIT | SOON, True),
}
CELLS = [f"{task}/{method}" for task in EPISODES for method in METHODS]


def train(cell: str) -> dict[str, Any]:
    """Train a method on a task, and return its steps and each seed's normalised scores there: the first is of the
    policy that was learned from data.
    """
    name, _, label = cell.partition("/")
    method, task, environment = METHODS[label], offline.TASKS[name], offline.TASKS[name].environment()
    low, high = offline.ends(name)
    common: dict[str, Any] = {"seeds": offline.SEEDS, "rewards": Scale(task.scale), "display": "quiet"}
    common |= {"evaluation_episodes": EPISODES[name], "evaluation_actions": "greedy"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        spec = {"spec": resolve("sac", environment, seeds=1).config()["spec"]}
        files.write_data(file, offline.played(name, offline.TIERS["mixed"]), spec)
        before = forage.train(
            method.before,
            environment,
            data=str(file),
            steps=offline.UPDATES,
            agent_options=method.offline,
            directory=Path(folder) / "before",
            **common,
        )
        memory = MixedReplay(str(file), capacity=STEPS) if method.with_data else UniformReplay(STEPS)
        run = forage.train(
            method.agent,
            environment,
            start_from=None if method.corrects else before,
            steps=STEPS,
            agent_options=method.online | ({"base": str(before.directory)} if method.corrects else {}),
            memory=memory,
            evaluation_every=EVERY,
            directory=Path(folder) / "run",
            **common,
        )
        rows = run.evaluations
        scores = [[100 * (value - low) / (high - low) for value in row["return"]] for row in rows]
        seconds = before.rows[-1]["seconds"], run.rows[-1]["seconds"]
        found, _ = handover_record([{"seed": seed} for seed in offline.SEEDS], rows)
    falls = len(found["settings"][0]["falls"])
    return {"steps": [row["steps"] for row in rows], "scores": scores, "seconds": seconds, "said": falls}


def table(found: dict[str, Any]) -> str:
    """Return the page of what was handed over, what was left of it and what came of it."""
    lines = [
        "# From data to the environment",
        "",
        "`python benchmarks/handover.py` trains what is missing. Normalised scores, 0 for random actions and 100 for",
        "the rule that played the data; means and Student's 95 % intervals of five seeds. *Lowest* is the lowest mean",
        "over seeds of all evaluations after the hand-over, and *fall* the share of the score that it lacks.",
        "",
        "Rows of Cal-QL and WSRL were run with an entropy target of 0, which their authors' programs read as -1 for",
        "each number of an action, as the defaults now do; Cal-QL's multiplier began at 1, not e.",
        "",
        "![curves](handover.png)",
        "",
        "| task | method | handed over | lowest | fall | at the end | evaluations that the run called a fall |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in (cell for cell in CELLS if cell in found):
        name, _, label = cell.partition("/")
        scores = np.array(found[cell]["scores"])
        means, first = scores.mean(1), scores[0]
        lowest = int(means[1:].argmin()) + 1
        shown = []
        for row in (first, scores[lowest], scores[-1]):
            low, high = student_interval(row)
            shown.append(f"{row.mean():.0f} [{low:.0f}, {high:.0f}]")
        fall = max(0.0, (means[0] - means[lowest]) / means[0]) if means[0] > 0 else 0.0
        said = f"{found[cell]['said']} of {len(scores) - 1}"
        told = [name, label, shown[0], f"{shown[1]} at {found[cell]['steps'][lowest]:,}", f"{fall:.0%}", shown[2], said]
        lines.append("| " + " | ".join(told) + " |")
    return "\n".join(lines) + "\n"


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw the curves of each task, a thin line for each seed behind the mean."""
    figure, axes = plt.subplots(1, len(EPISODES), figsize=(12, 4.5), sharey=True, layout="constrained")
    lines: dict[str, Any] = {}
    for axis, task in zip(axes, EPISODES, strict=True):
        for number, label in enumerate(METHODS):
            if (row := found.get(f"{task}/{label}")) is None:
                continue
            scores = np.array(row["scores"])
            colour = plt.colormaps["tab20"](number)
            axis.plot(row["steps"], scores, color=colour, alpha=0.15, linewidth=0.8)
            (lines[label],) = axis.plot(row["steps"], scores.mean(1), color=colour)
        axis.set(title=task, xlabel="steps of the environment after the hand-over")
    axes[0].set_ylabel("normalised score")
    figure.legend(lines.values(), lines.keys(), loc="outside right center", frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Train what is missing, list it, or make the page."""

    def page(found: dict[str, Any]) -> None:
        draw(found, RESULTS.with_name("handover.png"))
        RESULTS.with_name("HANDOVER.md").write_text(table(found))

    cells.work(__file__, RESULTS, CELLS, cells.parser(__doc__).parse_args(), train, page)


if __name__ == "__main__":
    main()
