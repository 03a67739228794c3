"""Soft Adaptive Policy Optimization: Gao and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Soft Adaptive Policy Optimization",
    authors="Gao and others",
    year=2025,
    arxiv="2511.20347",
    statement="A soft gate learns more from the same answers than GSPO's clip.",
    environment=ENVIRONMENT,
    arms={
        "GSPO": Arm("gspo", OPTIONS, parts),
        "SAPO": Arm("sapo", OPTIONS, parts),
    },
    treatment="SAPO",
    baselines=("GSPO",),
    measure=area,
    measured="mean reward during training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen3-30B-A3B on mathematics",
        1_000_000,
        1,
        "hundreds of GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE.strip(),
)
