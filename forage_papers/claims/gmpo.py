"""Geometric-Mean Policy Optimization: Zhao and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Geometric-Mean Policy Optimization",
    authors="Zhao, Liu, Liu, Zhu, Chen, Zhang, Yang, Liu, Wei",
    year=2025,
    arxiv="2507.20673",
    statement="The geometric mean of tokens' ratios does better than the arithmetic one.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS | {"minibatches": 4}, parts),
        "GMPO": Arm("gmpo", OPTIONS, parts),
    },
    treatment="GMPO",
    baselines=("GRPO",),
    measure=evaluated,
    measured="share of held-out problems solved",
    also=(Also(area, "mean reward during training"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen2.5-Math-7B on MATH",
        100_000,
        1,
        "8 A100 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE.strip(),
)
