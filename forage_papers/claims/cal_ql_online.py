"""Values no lower than returns keep conservative fine-tuning from falling: Nakamoto and others (2023), online too."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.memory.mixed import Mixed
from forage.rewards.scaling import Scale as Scaled
from forage.runs.run import Run
from forage.studies.claims.claim import FRESH, Also, Arm, Before, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "value_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}
SMALL |= {"policy_learning_rate": 3e-4, "samples": 4, "backup_samples": 1, "target_entropy": -1.0}
CURVE = {"evaluation_every": 250, "evaluation_episodes": 8}


def data() -> str:
    return played("Pendulum-v1", swing_up, (0.5,) * 20)


def offline() -> dict[str, Any]:
    return {"data": data(), "rewards": Scaled(0.1)}


def online() -> dict[str, Any]:
    return CURVE | {"memory": Mixed(data(), capacity=10_000), "rewards": Scaled(0.1)}


def arm(agent: str) -> Arm:
    """Return the arm in which this agent learns from data, and goes on online as it is."""
    return Arm(agent, SMALL | {"learning_starts": 200}, online, before=Before(agent, 4000, SMALL, offline))


def lowest(run: Run) -> list[float]:
    """Return each seed's lowest mean return in the evaluations after the first."""
    return np.array([row["return"] for row in run.evaluations[1:]]).min(0).tolist()


CLAIM = Claim(
    title="Cal-QL: Calibrated Offline RL Pre-Training for Efficient Online Fine-Tuning",
    authors="Nakamoto, Zhai, Singh, Mark, Ma, Finn, Kumar, Levine",
    year=2023,
    arxiv="2303.05479",
    statement="Going on online with its own losses, half of each batch from the data, calibrated Q-learning falls less "
    "far than conservative Q-learning does with its own.",
    environment="Pendulum-v1",
    arms={"CQL": arm("cql"), "Cal-QL": arm("cal-ql")},
    treatment="Cal-QL",
    baselines=("CQL",),
    measure=lowest,
    measured="lowest evaluation after the hand-over",
    also=(Also(evaluated, "return after the run"),),
    laptop=Scale(1500, FRESH[:5]),
    smoke=Scale(500, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 6, "a GPU and days", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, in place of mazes and "
    "kitchens. Both arms have the same numbers, but for the bound; updates follow each step, and not each episode.",
)
