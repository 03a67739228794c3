"""Batch normalisation in place of target networks: Bhatt and others (2024)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated

OPTIONS = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "learning_starts": 500}

CLAIM = Claim(
    title="CrossQ: Batch Normalization in Deep Reinforcement Learning for Greater Sample Efficiency and Simplicity",
    authors="Bhatt, Palenicek, Belousov, Argus, Amiranashvili, Brox, Peters",
    year=2024,
    arxiv="1902.05605",
    statement="At one update a step CrossQ learns from fewer steps than soft actor-critic.",
    environment="Pendulum-v1",
    arms={"SAC": Arm("sac", OPTIONS), "CrossQ": Arm("crossq", OPTIONS | {"value_sizes": (128, 128)})},
    treatment="CrossQ",
    baselines=("SAC",),
    measure=area,
    measured="mean return over training",
    also=(Also(evaluated, "return"),),
    laptop=Scale(5_000, FRESH[:5]),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "a GPU and a day"),
    note="Pendulum in place of MuJoCo tasks; small networks, with CrossQ's critics twice as wide as SAC's and not "
    "eight times. Both have the same learning rate, CrossQ's.",
)
