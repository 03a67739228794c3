"""Imitation of several imperfect teachers, state by state, and reinforcement beyond them: Liu and others (2024)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.behaviours.raps import RAPS
from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage.studies.claims.played import swing_up

SAME: dict[str, Any] = {"hidden_sizes": (64, 64), "num_envs": 8, "rollout_length": 256, "minibatches": 16, "epochs": 8}
SAME |= {"learning_rate": 1e-3, "discount": 0.9, "gae_lambda": 0.9, "entropy_coefficient": 0.0}
VALUES = {"value_sizes": (32, 32), "value_updates": 16, "value_segments": 2, "kept_rollouts": 8}


def pump(observation: Float[Array, "observation=3"]) -> Float[Array, "action=1"]:
    """Push Pendulum-v1 where it moves, also where it should be held."""
    return jnp.where(observation[2] < 0, -2.0, 2.0)[None]


def hold(observation: Float[Array, "observation=3"]) -> Float[Array, "action=1"]:
    """Hold Pendulum-v1 above where it is there, and do nothing elsewhere."""
    return jnp.where(observation[0] > 0.9, swing_up(observation), 0.0)


def scaled() -> dict[str, Any]:
    return {"rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Blending Imitation and Reinforcement Learning for Robust Policy Improvement",
    authors="Liu, Yoneda, Stevens, Walter, Chen",
    year=2024,
    arxiv="2310.01737",
    statement="With two teachers of which neither can do the task, robust policy improvement returns more than PPO "
    "after as many steps, the teachers' included.",
    environment="Pendulum-v1",
    arms={
        "PPO": Arm("ppo", SAME, scaled),
        "RPI": Arm(
            "rpi",
            SAME | VALUES | {"oracles": (pump, hold)},
            lambda: scaled() | {"behaviour": RAPS(pretraining=8192)},
        ),
    },
    treatment="RPI",
    baselines=("PPO",),
    measure=evaluated,
    measured="return",
    also=(Also(area, "mean return over training, teachers' steps included"),),
    laptop=Scale(60_000, SEEDS[:5]),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "a GPU and a day", lacks="the paper's saved teachers"),
    note="Pendulum, with rules for half of the task each in place of three policies saved on the way through training: "
    "one pumps energy everywhere, one holds the pendulum where it is above already. Half of all episodes are handed "
    "over, so RPI's policy learns from fewer steps than PPO's.",
)
