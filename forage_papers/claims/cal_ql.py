"""Values no lower than those of the data's policy keep fine-tuning from falling: Nakamoto and others (2023)."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.memory.mixed import Mixed
from forage.rewards.scaling import Scale as Scaled
from forage.runs.run import Run
from forage.studies.claims.claim import FRESH, Also, Arm, Before, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "value_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}
OFFLINE = SMALL | {"policy_learning_rate": 3e-4, "samples": 4}
ONLINE = SMALL | {"learning_starts": 128}
CURVE = {"evaluation_every": 250, "evaluation_episodes": 8}


def data() -> str:
    return played("Pendulum-v1", swing_up, (0.5,) * 20)


def offline() -> dict[str, Any]:
    return {"data": data(), "rewards": Scaled(0.1)}


def online() -> dict[str, Any]:
    return CURVE | {"memory": Mixed(data(), capacity=10_000), "rewards": Scaled(0.1)}


def arm(agent: str) -> Arm:
    """Return the arm in which SAC goes on from what this agent learned from data."""
    return Arm("sac", ONLINE, online, before=Before(agent, 4000, OFFLINE, offline))


def lowest(run: Run) -> list[float]:
    """Return each seed's lowest mean return in the evaluations after the first."""
    return np.array([row["return"] for row in run.evaluations[1:]]).min(0).tolist()


CLAIM = Claim(
    title="Cal-QL: Calibrated Offline RL Pre-Training for Efficient Online Fine-Tuning",
    authors="Nakamoto, Zhai, Singh, Mark, Ma, Finn, Kumar, Levine",
    year=2023,
    arxiv="2303.05479",
    statement="Going on online with SAC, what calibrated Q-learning learned from data falls less far than what "
    "conservative Q-learning did.",
    environment="Pendulum-v1",
    arms={
        "after CQL": arm("cql"),
        "after Cal-QL": arm("cal-ql"),
    },
    treatment="after Cal-QL",
    baselines=("after CQL",),
    measure=lowest,
    measured="lowest evaluation after the hand-over",
    also=(Also(evaluated, "return after the run"),),
    laptop=Scale(2000, FRESH[:5]),
    smoke=Scale(1250, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 6, "a GPU and days", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, in place of mazes and "
    "kitchens; half of each batch is from them online, too. Online both are SAC, as WSRL goes on, and not the agent "
    "that learned offline.",
)
