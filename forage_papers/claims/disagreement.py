"""A bonus for where models disagree: Pathak, Gandhi and Gupta (2019)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage_papers.rewards.bonuses.disagreement import Disagreement

OPTIONS = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8}

CLAIM = Claim(
    title="Self-Supervised Exploration via Disagreement",
    authors="Pathak, Gandhi, Gupta",
    year=2019,
    arxiv="1906.04161",
    statement="A bonus for where models disagree leads to a goal that is not reached without it.",
    environment="MountainCar-v0",
    arms={
        "without": Arm("ppo", OPTIONS),
        "with disagreement": Arm("ppo", OPTIONS, lambda: {"rewards": Disagreement(weight=1.0)}),
    },
    treatment="with disagreement",
    baselines=("without",),
    measure=evaluated,
    measured="return",
    laptop=Scale(200_000, tuple(range(1000, 1005))),
    smoke=Scale(8192, (1000, 1001)),
    paper=Paper("gymnasium:ALE/MontezumaRevenge-v5", 100_000_000, 3, "a GPU and days"),
    note="MountainCar, where only the goal ends the price of time, in place of Atari games, mazes and a robot's arm.",
)
