"""Where few episodes of many are good, drawing them more often helps any agent: Hong and others (2023)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forage.memory.dataset import DataSet
from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up
from forage_papers.memory.trajectory_weighted import TrajectoryWeighted

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def drawn(memory: Callable[[str], Any]) -> Callable[[], dict[str, Any]]:
    """Return what an arm is told that draws from the data by this memory."""
    file = lambda: played("Pendulum-v1", swing_up, (0.0,) * 2 + (1.0,) * 38)  # noqa: E731
    return lambda: {"memory": memory(file()), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Harnessing Mixed Offline Reinforcement Learning Datasets via Trajectory Weighting",
    authors="Hong, Agrawal, Tachet des Combes, Laroche",
    year=2023,
    arxiv="2306.13085",
    statement="Where two episodes of forty are good, implicit Q-learning has higher returns if transitions of better "
    "episodes are drawn more often.",
    environment="Pendulum-v1",
    arms={
        "drawn alike": Arm("iql", SMALL, drawn(DataSet)),
        "by the episode's advantage": Arm("iql", SMALL, drawn(TrajectoryWeighted)),
    },
    treatment="by the episode's advantage",
    baselines=("drawn alike",),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 5, "a GPU and hours", lacks="the data sets of D4RL"),
    note="Two episodes of a rule that swings the pendulum up among 38 of random actions, in place of mixtures of "
    "D4RL's data sets.",
)
