"""A price for what the data lack, told by random network distillation: Nikulin and others (2023)."""

from __future__ import annotations

from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "critic_norm": "layer"}


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.1,) * 20), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Anti-Exploration by Random Network Distillation",
    authors="Nikulin, Kurenkov, Tarasov, Kolesnikov",
    year=2023,
    arxiv="2301.13616",
    statement="From narrow data soft actor-critic has higher returns where it pays for what the data lack.",
    environment="Pendulum-v1",
    arms={
        "SAC": Arm("sac", SMALL, data),
        "SAC-RND": Arm("sac-rnd", SMALL | {"novelty_hidden": 64}, data),
    },
    treatment="SAC-RND",
    baselines=("SAC",),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 3_000_000, 4, "a GPU and days", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that swings the pendulum up, a tenth of whose actions are random, in place of D4RL; a "
    "penalty of 1, where the paper looks for the best one for each data set.",
)
