"""Quantiles whose largest are dropped control overestimation: Kuznetsov and others (2020)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "value_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}
SMALL |= {"learning_starts": 400}

CLAIM = Claim(
    title="Controlling Overestimation Bias with Truncated Mixture of Continuous Distributional Quantile Critics",
    authors="Kuznetsov, Shvechikov, Grishin, Vetrov",
    year=2020,
    arxiv="2005.04269",
    statement="Truncated quantile critics have higher returns after few steps than SAC.",
    environment="Pendulum-v1",
    arms={"SAC": Arm("sac", SMALL), "TQC": Arm("tqc", SMALL)},
    treatment="TQC",
    baselines=("SAC",),
    measure=evaluated,
    measured="return",
    laptop=Scale(3000, SEEDS[:5]),
    smoke=Scale(600, (1000, 1001)),
    paper=Paper("gymnasium:Humanoid-v5", 5_000_000, 10, "a GPU and days"),
    note="Pendulum in place of MuJoCo, and small networks.",
)
