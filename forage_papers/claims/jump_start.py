"""A guide for the beginning of each episode: Uchendu and others (2022)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from forage.behaviours.guide import Guide
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

OPTIONS = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8}


def pump(observation: Any, key: Any) -> Any:
    """Pushes the way the car moves: 0 is left, 2 is right."""
    return jnp.where(observation[1] < 0, 0, 2).astype(jnp.int32)


CLAIM = Claim(
    title="Jump-Start Reinforcement Learning",
    authors="Uchendu, Xiao, Lu, Zhu, Yan, Simon, Bennice, Fu, Ma, Jiao, Levine, Hausman",
    year=2022,
    arxiv="2204.02372",
    statement="A guide that plays ever less of each episode lets an agent learn where it does not alone.",
    environment="MountainCar-v0",
    arms={
        "alone": Arm("ppo", OPTIONS),
        "guided": Arm("ppo", OPTIONS, lambda: {"behaviour": Guide(pump, steps=200)}),
    },
    treatment="guided",
    baselines=("alone",),
    measure=evaluated,
    measured="return",
    laptop=Scale(200_000),
    smoke=Scale(8192, (1000, 1001)),
    paper=Paper(
        "robotics:AdroitHandDoor-v1", 1_000_000, 20, "a GPU and days", lacks="guides that were trained on D4RL's data"
    ),
    note="A rule that pumps energy guides PPO up the mountain, in place of policies from offline data on D4RL tasks.",
)
