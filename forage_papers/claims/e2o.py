"""A looser target and optimism go on from a pessimistic ensemble: Zhao and others (2023)."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.memory.mixed import Mixed
from forage.rewards.scaling import Scale as Scaled
from forage.runs.run import Run
from forage.studies.claims.claim import SEEDS, Also, Arm, Before, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "critics": 10}
ONLINE = SMALL | {"learning_starts": 128}
CURVE = {"evaluation_every": 250, "evaluation_episodes": 8}


def data() -> str:
    return played("Pendulum-v1", swing_up, (0.5,) * 20)


def offline() -> dict[str, Any]:
    return {"data": data(), "rewards": Scaled(0.1)}


def online() -> dict[str, Any]:
    return CURVE | {"memory": Mixed(data(), capacity=10_000), "rewards": Scaled(0.1)}


def fine_tuned(run: Run) -> list[float]:
    """Return each seed's mean return over the evaluations after the first."""
    return np.array([row["return"] for row in run.evaluations[1:]]).mean(0).tolist()


BEFORE = Before("sac-n", 4000, SMALL, offline)

CLAIM = Claim(
    title="ENOTO: Improving Offline-to-Online Reinforcement Learning with Q-Ensembles",
    authors="Zhao, Hao, Ma, Liu, Zheng, Meng",
    year=2023,
    arxiv="2306.06871",
    statement="Going on online from the same ten critics, the mean of pairs as a target and optimistic acting return "
    "more over the first steps than the least of the ten does.",
    environment="Pendulum-v1",
    arms={
        "the least of ten": Arm("sac-n", ONLINE, online, before=BEFORE),
        "E2O": Arm("e2o", ONLINE, online, before=BEFORE),
    },
    treatment="E2O",
    baselines=("the least of ten",),
    measure=fine_tuned,
    measured="mean of the evaluations after the hand-over",
    also=(Also(evaluated, "return after the run"),),
    laptop=Scale(2500, SEEDS[:5]),
    smoke=Scale(500, (1000, 1001)),
    paper=Paper("gymnasium:Walker2d-v5", 250_000, 5, "a GPU and a day", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, in place of D4RL; they "
    "are half of each batch online in both arms. The paper's text could not be looked up, nor its steps and seeds.",
)
