"""Reasoning with Exploration: Cheng and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, evaluated, late
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Reasoning with Exploration: An Entropy Perspective",
    authors="Cheng, Huang, Zhu, Dai, Zhao, Zhang, Wei",
    year=2025,
    arxiv="2506.14758",
    statement="A bonus for unsure tokens in the advantage finds right answers to more prompts.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS, parts),
        "shaped": Arm("entropy-shaped", OPTIONS, parts),
    },
    treatment="shaped",
    baselines=("GRPO",),
    measure=late("best"),
    measured="share of groups with a right answer in the last tenth of training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen2.5-7B on DAPO-Math",
        1_000_000,
        1,
        "8 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "Groups of 8 stand for pass at 8.",
)
