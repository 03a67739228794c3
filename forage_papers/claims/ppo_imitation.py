"""Imitation beside PPO: Andres and others (2023)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, pump

OPTIONS = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8}


def shown() -> dict[str, Any]:
    return {"agent_options": {"demonstrations": played("MountainCar-v0", pump, (0.0,) * 2)}}


CLAIM = Claim(
    title="Using Offline Data to Speed Up Reinforcement Learning in Procedurally Generated Environments",
    authors="Andres, Schaefer, Albrecht, Del Ser",
    year=2023,
    arxiv="2304.09825",
    statement="With two trajectories imitated beside it, PPO learns a sparse task that it does not learn alone.",
    environment="MountainCar-v0",
    arms={
        "PPO": Arm("ppo", OPTIONS),
        "PPO and imitation": Arm("ppo-imitation", OPTIONS, shown),
    },
    treatment="PPO and imitation",
    baselines=("PPO",),
    measure=evaluated,
    measured="return",
    laptop=Scale(60_000, tuple(range(1000, 1005))),
    smoke=Scale(8192, (1000, 1001)),
    paper=Paper("minigrid:MiniGrid-MultiRoom-N7-S8-v0", 10_000_000, 3, "a GPU and a day", lacks="their trajectories"),
    note="One level in place of generated ones; a rule that pumps energy demonstrates.",
)
