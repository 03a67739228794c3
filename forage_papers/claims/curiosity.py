"""Curiosity for what an action changes and could not be foretold: Pathak and others (2017)."""

from __future__ import annotations

from forage.rewards.bonuses.icm import ICM
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

OPTIONS = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8}

CLAIM = Claim(
    title="Curiosity-driven Exploration by Self-supervised Prediction",
    authors="Pathak, Agrawal, Efros, Darrell",
    year=2017,
    arxiv="1705.05363",
    statement="A bonus for what a model could not foretell leads to a goal that is not reached without it.",
    environment="MountainCar-v0",
    arms={
        "without": Arm("ppo", OPTIONS),
        "with curiosity": Arm("ppo", OPTIONS, lambda: {"rewards": ICM(weight=1.0)}),
    },
    treatment="with curiosity",
    baselines=("without",),
    measure=evaluated,
    measured="return",
    laptop=Scale(200_000, tuple(range(1000, 1005))),
    smoke=Scale(8192, (1000, 1001)),
    paper=Paper("VizDoom's DoomMyWayHome", 10_000_000, 3, "a GPU and days", lacks="VizDoom"),
    note="MountainCar, where only the goal ends the price of time, and PPO in place of VizDoom, Mario and A3C.",
)
