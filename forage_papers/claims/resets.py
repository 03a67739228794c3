"""Networks that begin anew forget what came first, and memory keeps it: Nikishin and others (2022)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated

OFTEN: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "learning_starts": 400}
OFTEN |= {"updates_per_rollout": 16}

CLAIM = Claim(
    title="The Primacy Bias in Deep Reinforcement Learning",
    authors="Nikishin, Schwarzer, D'Oro, Bacon, Courville",
    year=2022,
    arxiv="2205.07802",
    statement="With 16 updates a step, SAC whose networks begin anew now and then ends with higher returns than "
    "without.",
    environment="Pendulum-v1",
    arms={"no resets": Arm("sac", OFTEN), "resets": Arm("sac", OFTEN | {"reset_interval": 12_000})},
    treatment="resets",
    baselines=("no resets",),
    measure=evaluated,
    measured="return",
    laptop=Scale(3000, SEEDS[:5]),
    smoke=Scale(600, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 1_000_000, 10, "a GPU and days"),
    note="Pendulum in place of DeepMind Control's tasks; of 41,600 updates three begin anew, the last 5,600 before the "
    "end.",
)
