"""Uncertainty guides fine-tuning: Guo and others (2023)."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.memory.mixed import Mixed
from forage.rewards.scaling import Scale as Scaled
from forage.runs.run import Run
from forage.studies.claims.claim import SEEDS, Also, Arm, Before, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}
CURVE = {"evaluation_every": 250, "evaluation_episodes": 8}
DENSITY = {"density_hidden": 64}
ONLINE = SMALL | {"learning_starts": 128}


def data() -> str:
    return played("Pendulum-v1", swing_up, (0.5,) * 20)


def offline() -> dict[str, Any]:
    return {"data": data(), "rewards": Scaled(0.1)}


def online() -> dict[str, Any]:
    return CURVE | {"memory": Mixed(data(), share=0.1, capacity=2000), "rewards": Scaled(0.1)}


def fine_tuned(run: Run) -> list[float]:
    """Return each seed's mean return over the evaluations after the first."""
    return np.array([row["return"] for row in run.evaluations[1:]]).mean(0).tolist()


CLAIM = Claim(
    title="A Simple Unified Uncertainty-Guided Framework for Offline-to-Online Reinforcement Learning",
    authors="Guo, Sun, Hu, Huang, Chen, Piao, Sun, Chang",
    year=2023,
    arxiv="2306.07541",
    statement="Going on online from TD3+BC, SUNG's policy returns more over its first steps than TD3's does from the "
    "same buffers.",
    environment="Pendulum-v1",
    arms={
        "TD3": Arm(
            "td3", ONLINE | {"normalise_observation": True}, online, before=Before("td3-bc", 4000, SMALL, offline)
        ),
        "SUNG": Arm(
            "sung", ONLINE | DENSITY | {"online": True}, online, before=Before("sung", 4000, SMALL | DENSITY, offline)
        ),
    },
    treatment="SUNG",
    baselines=("TD3",),
    measure=fine_tuned,
    measured="mean of the evaluations after the hand-over",
    also=(Also(evaluated, "return after the run"),),
    laptop=Scale(2500, SEEDS[:5]),
    smoke=Scale(500, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 100_000, 5, "a GPU and a day", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, in place of D4RL. TD3 "
    "explores by noise of the same size that SUNG draws its candidates with, and standardises observations by what it "
    "sees; SUNG goes on with those of the data.",
)
