"""A temperature that is learned needs no tuning: Haarnoja and others (2018)."""

from __future__ import annotations

from typing import Any

from forage.rewards.scaling import Scale as ScaledReward
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

OPTIONS = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def rewards() -> dict[str, Any]:
    """Rewards from -0.16 to 0: what a temperature of 1 drowns."""
    return {"rewards": ScaledReward(0.01)}


CLAIM = Claim(
    title="Soft Actor-Critic Algorithms and Applications",
    authors="Haarnoja, Zhou, Hartikainen, Tucker, Ha, Tan, Kumar, Zhu, Gupta, Abbeel, Levine",
    year=2018,
    arxiv="1812.05905",
    statement="A learned temperature does better than fixed ones that suit another size of the reward.",
    environment="Pendulum-v1",
    arms={
        "fixed 1": Arm("sac", OPTIONS | {"learn_temperature": False}, rewards),
        "fixed 0.1": Arm("sac", OPTIONS | {"learn_temperature": False, "initial_temperature": 0.1}, rewards),
        "learned": Arm("sac", OPTIONS, rewards),
    },
    treatment="learned",
    baselines=(
        "fixed 1",
        "fixed 0.1",
    ),
    measure=evaluated,
    measured="return",
    laptop=Scale(10_000, tuple(range(1000, 1005))),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 3_000_000, 5, "a GPU and days"),
    note="Pendulum with its reward over a hundred, in place of MuJoCo tasks; small networks.",
)
