"""Many critics and many updates a step learn from fewer steps: Chen, Wang, Zhou and Ross (2021)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "learning_starts": 400}
OFTEN = SMALL | {"updates_per_rollout": 10}

CLAIM = Claim(
    title="Randomized Ensembled Double Q-Learning: Learning Fast Without a Model",
    authors="Chen, Wang, Zhou, Ross",
    year=2021,
    arxiv="2101.05982",
    statement="With ten updates a step REDQ, whose target is the least of two of its ten critics, has higher returns "
    "over its first steps than SAC with one update and with ten.",
    environment="Pendulum-v1",
    arms={
        "SAC, 1 update": Arm("sac", SMALL),
        "SAC, 10 updates": Arm("sac", OFTEN),
        "REDQ, 10 updates": Arm("redq", OFTEN | {"policy_delay": 10}),
    },
    treatment="REDQ, 10 updates",
    baselines=("SAC, 1 update", "SAC, 10 updates"),
    measure=area,
    measured="mean return in training",
    laptop=Scale(3000, SEEDS[:5]),
    smoke=Scale(600, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 125_000, 5, "a GPU and days"),
    note="Pendulum in place of MuJoCo, small networks, and ten updates a step in place of twenty.",
)
