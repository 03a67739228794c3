"""Offline agents beside the rule that made narrow data, without its noise: Qin and others (2022)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from forage.data import files
from forage.evaluation.statistics import student_interval
from forage.rewards.scaling import Scale as Scaled
from forage.runs.run import Run
from forage.studies.claims.claim import SEEDS, Arm, Claim, Effect, Paper, Rule, Scale, evaluated, judged
from forage.studies.claims.played import played

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}
NOISE, EPISODES = 0.2, 20


def weakly(observation: Float[Array, "observation=3"]) -> Float[Array, "action=1"]:
    """Swing Pendulum-v1 up by its energy with half of the torque, and hold it there."""
    cosine, sine, speed = observation
    lacking = 15.0 - (0.5 * speed * speed + 15.0 * cosine)  # of the energy that it has at rest above
    held = -(8.0 * jnp.arctan2(sine, cosine) + 1.5 * speed)
    torque = jnp.where((cosine > 0.9) & (jnp.abs(speed) < 3.0), held, speed * lacking)
    return jnp.clip(torque, -1.0, 1.0)[None]


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", weakly, (NOISE,) * EPISODES), "rewards": Scaled(0.1)}


@functools.cache
def without_noise() -> float:
    """Return the mean return of 200 episodes of the rule that acted, without its noise."""
    found = files.read(Path(played("Pendulum-v1", weakly, (0.0,) * 200, seed=1)))[0]
    return float(np.bincount(found.numbers, found.reward).mean())


def ahead(run: Run) -> list[float]:
    """Return how far each seed's mean return is above that of the rule without noise."""
    return [value - without_noise() for value in evaluated(run)]


def each_behind(values: Mapping[str, np.ndarray], rule: Rule) -> list[Effect]:
    """Return how far each agent is behind the rule, with the interval of its mean."""
    found = []
    for label, differences in values.items():
        behind = -np.asarray(differences)
        low, high = student_interval(behind, rule.confidence)
        found.append(Effect(label, float(behind.mean()), low, high, judged(low, high, rule.margin)))
    return found


CLAIM = Claim(
    title="NeoRL: A Near Real-World Benchmark for Offline Reinforcement Learning",
    authors="Qin, Zhang, Gao, Chen, Li, Zhang, Yu",
    year=2022,
    arxiv="2102.00714",
    statement="From few episodes of a narrow policy, agents that learn offline do not surpass that policy without its "
    "noise.",
    environment="Pendulum-v1",
    arms={
        "behaviour cloning": Arm("bc", SMALL, data),
        "IQL": Arm("iql", SMALL, data),
        "TD3+BC": Arm("td3-bc", SMALL, data),
        "CQL": Arm("cql", SMALL, data),
    },
    treatment="the rule without noise",
    baselines=("behaviour cloning",),
    measure=ahead,
    measured="return less that of the rule without noise",
    laptop=Scale(4000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 3, "a GPU and days", lacks="the data sets of NeoRL"),
    rule=Rule(margin=-20.0),
    note="20 episodes of a rule that swings the pendulum up with half of the torque, a fifth of whose actions are "
    "random, as NeoRL draws a fifth of its actions. `forage data make --narrow` makes such sets of trained agents.",
    judge=each_behind,
    judged_by="The effect is how far the mean return is below that of the rule without noise. The claim holds where "
    "the whole 95 % interval of each agent lies above -20, fails where one is below: then that agent surpasses the "
    "rule by more than 20.",
)
