"""Residual networks with normalised observations: Lee and others (2024)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated

OPTIONS = {"batch_size": 128, "learning_rate": 1e-3, "learning_starts": 500, "updates_per_rollout": 1}
SAME = {"initial_temperature": 1.0, "target_entropy": -1.0}

CLAIM = Claim(
    title="SimBa: Simplicity Bias for Scaling Up Parameters in Deep Reinforcement Learning",
    authors="Lee, Hwang, Kim, Kim, Tai, Subramanian, Wurman, Choo, Stone, Seno",
    year=2024,
    arxiv="2410.09754",
    statement="Soft actor-critic learns from fewer steps with SimBa's networks than with multilayer perceptrons.",
    environment="Pendulum-v1",
    arms={
        "SAC": Arm("sac", OPTIONS | {"hidden_sizes": (64, 64)}),
        "SimBa": Arm("simba", OPTIONS | SAME | {"hidden_sizes": (32,), "value_sizes": (64, 64)}),
    },
    treatment="SimBa",
    baselines=("SAC",),
    measure=area,
    measured="mean return over training",
    also=(Also(evaluated, "return"),),
    laptop=Scale(5_000, FRESH[:5]),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:Humanoid-v5", 1_000_000, 10, "a GPU and a day"),
    note="Pendulum, whose observations are of the order of one already, in place of the tasks with many joints where "
    "the paper finds most; small networks. Both arms have the same learning rate, temperature and number of updates.",
)
