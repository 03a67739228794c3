"""MiniMax-M1: MiniMax and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="MiniMax-M1: Scaling Test-Time Compute Efficiently with Lightning Attention",
    authors="MiniMax",
    year=2025,
    arxiv="2506.13585",
    statement="A clipped weight that takes no token's gradient away learns more than the clip of DAPO.",
    environment=ENVIRONMENT,
    arms={
        "DAPO": Arm("dapo", OPTIONS | {"group_size": 8}, parts),
        "CISPO": Arm("cispo", OPTIONS, parts),
    },
    treatment="CISPO",
    baselines=("DAPO",),
    measure=area,
    measured="mean reward during training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen2.5-32B on AIME",
        1_000_000,
        1,
        "hundreds of GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE.strip(),
)
