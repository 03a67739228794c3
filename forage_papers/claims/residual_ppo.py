"""Corrections by PPO of a frozen policy, paid seldom: Ankile and others (2024)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import loosely

OPTIONS: dict[str, Any] = {"hidden_sizes": (64, 64), "num_envs": 8, "rollout_length": 200, "learning_rate": 1e-3}
OPTIONS |= {"epochs": 10, "minibatches": 8}


CLAIM = Claim(
    title="From Imitation to Refinement -- Residual RL for Precise Assembly",
    authors="Ankile, Simeonov, Shenfeld, Torne, Agrawal",
    year=2024,
    arxiv="2407.16677",
    statement="Where reward is sparse, PPO that corrects a frozen policy ends above that policy, and above PPO without "
    "it.",
    environment="Pendulum-sparse",
    arms={
        "PPO": Arm("ppo", OPTIONS),
        "base": Arm("residual-ppo", OPTIONS | {"base": loosely, "residual_scale": 1e-4}, steps=3200),
        "residual": Arm("residual-ppo", OPTIONS | {"base": loosely, "residual_scale": 0.5}),
    },
    treatment="residual",
    baselines=("PPO", "base"),
    measure=evaluated,
    measured="return",
    laptop=Scale(100_000, SEEDS[:5]),
    smoke=Scale(3200, (1000, 1001)),
    paper=Paper("FurnitureBench: one-leg", 500_000_000, 1, "a GPU and days", lacks="the simulator and a cloned policy"),
    note="A rule that swings the pendulum up and does not keep it up, in place of a cloned policy that predicts "
    "several actions at once. The base's own arm may correct it by a ten-thousandth. The paper's steps and seeds "
    "could not be looked up.",
)
