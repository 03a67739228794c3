"""Networks and returns of unit size: Lee and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated

OPTIONS = {"batch_size": 128, "learning_rate": 1e-3, "learning_starts": 500, "updates_per_rollout": 1}
SAME = {"target_entropy": -1.0, "hidden_sizes": (32,), "value_sizes": (64, 64)}

CLAIM = Claim(
    title="Hyperspherical Normalization for Scalable Deep Reinforcement Learning",
    authors="Lee, Lee, Seno, Kim, Stone, Choo",
    year=2025,
    arxiv="2502.15280",
    statement="Soft actor-critic learns from fewer steps with SimBaV2's networks, critics and rewards than with "
    "SimBa's networks.",
    environment="Pendulum-v1",
    arms={
        "SimBa": Arm("simba", OPTIONS | SAME | {"initial_temperature": 1.0}),
        "SimBaV2": Arm("simba-v2", OPTIONS | SAME | {"initial_temperature": 0.01}),
    },
    treatment="SimBaV2",
    baselines=("SimBa",),
    measure=area,
    measured="mean return over training",
    also=(Also(evaluated, "return"),),
    laptop=Scale(5_000, FRESH[:5]),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:Humanoid-v5", 1_000_000, 10, "a GPU and a day"),
    note="Pendulum in place of tasks with many joints, and small networks. Both arms have the same sizes, first "
    "learning rate and number of updates; SimBaV2's first temperature is the authors', as its rewards are scaled to "
    "returns of 5 at most. Tried before: a first temperature of 1 for both, on seeds 1000 to 1004, at which SimBaV2 "
    "learned nothing (-1230, SimBa -723): entropy outweighed its rewards.",
)
