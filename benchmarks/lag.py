"""How much does a lag cost? IMPALA and APPO that learn from what their policies did 0, 1 or 4 updates ago, beside PPO.

    python benchmarks/lag.py --list             # cells: task/agent/lag, and which are done
    python benchmarks/lag.py                    # train all that is missing
    python benchmarks/lag.py --only Acrobot-v1  # cells whose names begin so
    python benchmarks/lag.py --table            # results/LAG.md from results/lag.json

Equal steps of the environment for all, five seeds in one process, greedy evaluation in 32 episodes. The lag is that of
the memory `queue`, which hands out each rollout when so many newer ones have come. Settings are the same for all lags.
What is running when the process ends is lost; what is done stays.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import cells
import numpy as np

import forage
from forage.evaluation.comparison import welch_difference
from forage.memory.queue import Queue

RESULTS = Path(__file__).parent / "results" / "lag.json"
SEEDS = [1000, 1001, 1002, 1003, 1004]
TASKS = {"CartPole-v1": 100_000, "Acrobot-v1": 200_000, "minatar:Breakout": 150_000}
SAME: dict[str, Any] = {"num_envs": 8, "rollout_length": 32, "discount": 0.99}
PROXIMAL = SAME | {"learning_rate": 1e-3, "epochs": 4, "minibatches": 4}
AGENTS: dict[str, dict[str, Any]] = {"ppo": PROXIMAL, "appo": PROXIMAL, "impala": SAME | {"learning_rate": 6e-3}}
LAGS = (0, 1, 4)
CELLS = [f"{task}/{agent}/{lag}" for task in TASKS for agent in AGENTS for lag in (LAGS if agent != "ppo" else (0,))]


def train(cell: str) -> dict[str, Any]:
    """Train an agent with a lag. Return the mean evaluation return of each seed, and the seconds that it took."""
    task, agent, lag = cell.split("/")
    with tempfile.TemporaryDirectory() as folder:
        run = forage.train(
            agent,
            task,
            steps=TASKS[task],
            seeds=SEEDS,
            agent_options=AGENTS[agent],
            memory=None if agent == "ppo" else Queue(int(lag)),
            evaluation_episodes=32,
            evaluation_actions="greedy",
            display="quiet",
            directory=Path(folder) / "run",
        )
        return {"scores": run.evaluation["return"], "seconds": round(run.rows[-1]["seconds"])}


def difference(scores: np.ndarray, others: list[float]) -> str:
    """Return a difference of means with its interval, marked where that leaves 0 out."""
    value, low, high = welch_difference(scores, np.array(others))
    return f"{value:+.3g} [{low:.3g}, {high:.3g}]" + (" above" if low > 0 else " below" if high < 0 else "")


def table(found: dict[str, Any]) -> str:
    """Return the page, with what is done."""
    steps = ", ".join(f"{count:,} steps of {task}" for task, count in TASKS.items())
    lines = [
        "# What a lag costs",
        "",
        "`python benchmarks/lag.py` trains what is missing:",
        f"{steps}.",
        "Greedy returns, means and Student's 95 % intervals of five seeds; differences with Welch's.",
        "They are not corrected for their number.",
        "",
        "| task | agent | lag, in rollouts | return | less PPO's | less its own at lag 0 |",
        "|---|---|---|---|---|---|",
    ]
    for cell in (cell for cell in CELLS if cell in found):
        task, agent, lag = cell.split("/")
        scores = np.array(found[cell]["scores"])
        rivals = ["" if agent == "ppo" else f"{task}/ppo/0", "" if lag == "0" else f"{task}/{agent}/0"]
        less = [difference(scores, found[rival]["scores"]) if rival in found else "" for rival in rivals]
        lines.append(f"| {task} | {agent} | {lag} | {cells.with_interval(scores)} | {' | '.join(less)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train what is missing, list it, or make the page."""

    def page(found: dict[str, Any]) -> None:
        RESULTS.with_name("LAG.md").write_text(table(found))

    cells.work(__file__, RESULTS, CELLS, cells.parser(__doc__).parse_args(), train, page)


if __name__ == "__main__":
    main()
