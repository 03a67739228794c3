"""State entropy in a random embedding: Seo and others (2021)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage_papers.rewards.bonuses.re3 import RE3

OPTIONS = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8}

CLAIM = Claim(
    title="State Entropy Maximization with Random Encoders for Efficient Exploration",
    authors="Seo, Chen, Shin, Lee, Abbeel, Lee",
    year=2021,
    arxiv="2102.09430",
    statement="A bonus for the distance to nearest states in a random embedding leads to a goal that is not reached "
    "without it.",
    environment="MountainCar-v0",
    arms={
        "without": Arm("ppo", OPTIONS),
        "with RE3": Arm("ppo", OPTIONS, lambda: {"rewards": RE3(weight=1.0)}),
    },
    treatment="with RE3",
    baselines=("without",),
    measure=evaluated,
    measured="return",
    laptop=Scale(60_000, tuple(range(1000, 1005))),
    smoke=Scale(8192, (1000, 1001)),
    paper=Paper("grid:DoorKey-6x6", 400_000, 5, "hours on a few cores"),
    note="MountainCar and PPO in place of MiniGrid and A2C. Length and weight are of one look at the seeds 0 to 4.",
)
