"""Smooth values and policies from data to the environment: Wen and others (2023)."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.memory.uniform import UniformReplay
from forage.rewards.scaling import Scale as Scaled
from forage.runs.run import Run
from forage.studies.claims.claim import SEEDS, Also, Arm, Before, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 64, "learning_rate": 1e-3, "critics": 5}
SMOOTH = SMALL | {"neighbours": 4}
SOON = {"learning_starts": 128}
CURVE = {"evaluation_every": 250, "evaluation_episodes": 8}


def offline() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.5,) * 20), "rewards": Scaled(0.1)}


def online() -> dict[str, Any]:
    return CURVE | {"memory": UniformReplay(10_000), "rewards": Scaled(0.1)}


def fine_tuned(run: Run) -> list[float]:
    """Return each seed's mean return over the evaluations after the first."""
    return np.array([row["return"] for row in run.evaluations[1:]]).mean(0).tolist()


CLAIM = Claim(
    title="Towards Robust Offline-to-Online Reinforcement Learning via Uncertainty and Smoothness",
    authors="Wen, Yu, Yang, Chen, Bai, Wang",
    year=2023,
    arxiv="2309.16973",
    statement="Going on online with the losses of the offline run, SAC with an ensemble returns more over its first "
    "steps where values and policy are smooth and careful.",
    environment="Pendulum-v1",
    arms={
        "SAC-N": Arm("sac-n", SMALL | SOON, online, before=Before("sac-n", 4000, SMALL, offline)),
        "RO2O": Arm("ro2o", SMOOTH | SOON, online, before=Before("ro2o", 4000, SMOOTH, offline)),
    },
    treatment="RO2O",
    baselines=("SAC-N",),
    measure=fine_tuned,
    measured="mean of the evaluations after the hand-over",
    also=(Also(evaluated, "return after the run"),),
    laptop=Scale(2500, SEEDS[:5]),
    smoke=Scale(500, (1000, 1001)),
    paper=Paper("gymnasium:Walker2d-v5", 250_000, 5, "a GPU and a day", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, in place of D4RL; five "
    "critics and four perturbed observations in place of ten and twenty. Weights and radii are the authors'. The "
    "paper's steps and seeds could not be looked up.",
)
