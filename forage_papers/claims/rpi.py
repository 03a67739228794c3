"""Imitation of several imperfect teachers, state by state, and reinforcement beyond them: Liu and others (2024)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import push

SAME: dict[str, Any] = {"hidden_sizes": (64, 64), "num_envs": 8, "rollout_length": 256, "minibatches": 16, "epochs": 8}
SAME |= {
    "normalise_observation": True,
    "learning_rate": 1e-3,
    "discount": 0.99,
    "gae_lambda": 0.9,
    "entropy_coefficient": 0.0,
}
VALUES = {"value_sizes": (32, 32), "kept_rollouts": 8}


def right(observation: Float[Array, "observation=2"]) -> Float[Array, "action=1"]:
    """Push the car of MountainCarContinuous-v0 to the right, where the hill is too steep."""
    return jnp.ones(1)


def scaled() -> dict[str, Any]:
    return {"rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Blending Imitation and Reinforcement Learning for Robust Policy Improvement",
    authors="Liu, Yoneda, Stevens, Walter, Chen",
    year=2024,
    arxiv="2310.01737",
    statement="Where rewards are sparse, robust policy improvement with two imperfect teachers returns more than PPO "
    "after as many steps, the teachers' included.",
    environment="MountainCarContinuous-v0",
    arms={
        "PPO": Arm("ppo", SAME, scaled),
        "RPI": Arm("rpi", SAME | VALUES | {"oracles": (push, right)}, scaled),
    },
    treatment="RPI",
    baselines=("PPO",),
    measure=evaluated,
    measured="return",
    laptop=Scale(60_000, FRESH[:5]),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "a GPU and a day", lacks="the paper's saved teachers"),
    note="One car, and two rules in place of three policies saved on the way through training: one pumps energy at "
    "full force, for which the task charges, one never gets there. Half of all episodes are handed over, and the first "
    "8,192 steps are the teachers' alone, so RPI's policy learns from less than half as many steps as PPO's.",
)
