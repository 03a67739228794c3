"""Dropout and normalisation do what many critics do: Hiraoka and others (2022)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Rule, Scale, area

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "learning_starts": 400}
OFTEN = SMALL | {"updates_per_rollout": 10}

CLAIM = Claim(
    title="Dropout Q-Functions for Doubly Efficient Reinforcement Learning",
    authors="Hiraoka, Imagawa, Hashimoto, Onishi, Tsuruoka",
    year=2022,
    arxiv="2110.02034",
    statement="With ten updates a step DroQ, of two critics, has returns over its first steps that are no more than 50 "
    "below those of REDQ, of ten, and those of SAC with one update a step.",
    environment="Pendulum-v1",
    arms={
        "SAC, 1 update": Arm("sac", SMALL),
        "REDQ, 10 updates": Arm("redq", OFTEN | {"policy_delay": 10}),
        "DroQ, 10 updates": Arm("droq", OFTEN | {"policy_delay": 10}),
    },
    treatment="DroQ, 10 updates",
    baselines=("SAC, 1 update", "REDQ, 10 updates"),
    measure=area,
    measured="mean return in training",
    laptop=Scale(3000, SEEDS[:5]),
    smoke=Scale(600, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 125_000, 5, "a GPU and days"),
    rule=Rule(margin=-50.0),
    note="Pendulum in place of MuJoCo, small networks, and ten updates a step in place of twenty.",
)
