"""BAPO: Xi and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="BAPO: Stabilizing Off-Policy Reinforcement Learning for LLMs via Balanced Policy Optimization with "
    "Adaptive Clipping",
    authors="Xi and others",
    year=2025,
    arxiv="2510.18927",
    statement="Bounds that move learn more than fixed ones from answers that grow old.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS | {"epochs": 2, "minibatches": 4, "aggregation": "token-mean"}, parts),
        "BAPO": Arm("bapo", OPTIONS | {"group_size": 8}, parts),
    },
    treatment="BAPO",
    baselines=("GRPO",),
    measure=area,
    measured="mean reward during training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "a 7B model on AIME",
        1_000_000,
        1,
        "8 GPUs or more",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "Eight steps of each rollout in both arms.",
)
