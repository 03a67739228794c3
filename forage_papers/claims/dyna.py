"""Planning with a learned table reaches a goal in fewer steps: Sutton (1990)."""

from __future__ import annotations

from typing import Any

from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.memory.uniform import UniformReplay
from forage.runs.run import Run
from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale
from forage_papers.memory.dyna import Dyna


def planned(planning: int) -> Arm:
    """Return Dyna-Q with so many imagined transitions beside each step of the environment; 0 is Q-learning."""
    memory = Dyna(capacity=1, planning=float(planning))
    return Arm("q-learning", {"batch_size": planning + 1}, lambda: explores() | {"memory": memory})


def explores() -> dict[str, Any]:
    return {"behaviour": EpsilonGreedy(start=0.1, end=0.1)}


def reached(run: Run) -> list[float]:
    """Return each seed's number of goals that were reached in training."""
    ended = [(row["return"], row["episodes"]) for row in run.rows]
    return [sum((paid[seed] or 0.0) * count[seed] for paid, count in ended) for seed in range(len(run.config["seeds"]))]


CLAIM = Claim(
    title="Integrated Architectures for Learning, Planning, and Reacting Based on Approximating Dynamic Programming",
    authors="Sutton",
    year=1990,
    arxiv="ICML 1990, pages 216-224",
    statement="With five imagined transitions beside each step of the environment, Q-learning finds the goal of a maze "
    "more often in as many steps than without.",
    environment="tabular:DynaMaze",
    arms={
        "Q-learning": planned(0),
        "Dyna-Q, 5 imagined": planned(5),
        "Dyna-Q, 50 imagined": planned(50),
        "replay of 6": Arm("q-learning", {"batch_size": 6}, lambda: explores() | {"memory": UniformReplay()}),
    },
    treatment="Dyna-Q, 5 imagined",
    baselines=("Q-learning",),
    measure=reached,
    measured="goals reached in training",
    laptop=Scale(4000, FRESH[5:]),
    smoke=Scale(1000, (1000, 1001)),
    paper=Paper("tabular:DynaMaze", 6000, 30, "a CPU and a minute"),
    note="The maze and numbers are those of Sutton and Barto (2018), figure 8.2. Steps were chosen on seeds 0 to 2. In "
    "a maze where every step is sure, replay imagines as well as a table: the last arm shows what it does with as many "
    "updates.",
)
