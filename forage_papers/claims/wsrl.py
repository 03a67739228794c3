"""A warm-up keeps a policy that was learned offline from being lost online: Zhou and others (2024)."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.memory.uniform import UniformReplay
from forage.rewards.scaling import Scale as Scaled
from forage.runs.run import Run
from forage.studies.claims.claim import FRESH, Also, Arm, Before, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}
SMALL |= {"critics": 5, "critic_norm": "layer"}
ONLINE = SMALL | {"updates_per_rollout": 4, "policy_delay": 4, "target_entropy": -1.0, "backup_entropy": True}
CURVE = {"evaluation_every": 250, "evaluation_episodes": 8}


def offline() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.5,) * 20), "rewards": Scaled(0.1)}


def online() -> dict[str, Any]:
    return CURVE | {"memory": UniformReplay(10_000), "rewards": Scaled(0.1)}


def lowest(run: Run) -> list[float]:
    """Return each seed's lowest mean return in the evaluations after the first."""
    return np.array([row["return"] for row in run.evaluations[1:]]).min(0).tolist()


BEFORE = Before("sac-n", 4000, SMALL, offline)

CLAIM = Claim(
    title="Efficient Online Reinforcement Learning Fine-Tuning Need Not Retain Offline Data",
    authors="Zhou, Peng, Li, Levine, Kumar",
    year=2024,
    arxiv="2412.07762",
    statement="Going on online from an offline policy without its data, SAC falls less far where a warm-up of that "
    "policy's own steps comes before the first update.",
    environment="Pendulum-v1",
    arms={
        "no warm-up": Arm("sac", ONLINE | {"target_subset": 2, "learning_starts": 128}, online, before=BEFORE),
        "WSRL": Arm("wsrl", ONLINE | {"learning_starts": 1000}, online, before=BEFORE),
    },
    treatment="WSRL",
    baselines=("no warm-up",),
    measure=lowest,
    measured="lowest evaluation after the hand-over",
    also=(Also(evaluated, "return after the run"),),
    laptop=Scale(3000, FRESH[:5]),
    smoke=Scale(1250, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 300_000, 10, "a GPU and a day", lacks="the data sets of D4RL"),
    note="SAC with the least value of five normalised critics learns offline, in place of Cal-QL, from 20 episodes of "
    "a rule half of whose actions are random. Both arms make four updates a step, and differ in the warm-up alone.",
)
