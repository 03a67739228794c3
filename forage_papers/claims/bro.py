"""An optimistic explorer beside a regularised critic: Nauman and others (2024)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated

OPTIONS = {"batch_size": 64, "learning_rate": 1e-3, "learning_starts": 500, "updates_per_rollout": 2}
SMALL = {"hidden_sizes": (64,), "value_sizes": (64,), "quantiles": 16, "resets": ()}

CLAIM = Claim(
    title="Bigger, Regularized, Optimistic: scaling for compute and sample-efficient continuous control",
    authors="Nauman, Ostaszewski, Jankowski, Miłoś, Cygan",
    year=2024,
    arxiv="2405.16158",
    statement="At two updates a step BRO learns from fewer steps than soft actor-critic.",
    environment="Pendulum-v1",
    arms={"SAC": Arm("sac", OPTIONS | {"hidden_sizes": (64, 64)}), "BRO": Arm("bro", OPTIONS | SMALL)},
    treatment="BRO",
    baselines=("SAC",),
    measure=area,
    measured="mean return over training",
    also=(Also(evaluated, "return"),),
    laptop=Scale(5_000, FRESH[:5]),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 5, "a GPU and two days", {"batch_size": 128}),
    note="Pendulum in place of tasks with many joints, small networks with one block each, two updates a step and not "
    "ten, and no resets: the first of the paper's comes after 15,000 steps.",
)
