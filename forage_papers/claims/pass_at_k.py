"""Pass@k training: Chen and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, evaluated, late
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Pass@k Training for Adaptively Balancing Exploration and Exploitation of Large Reasoning Models",
    authors="Chen and others",
    year=2025,
    arxiv="2508.10751",
    statement="Training for the best of k finds right answers to more prompts than training for each answer.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS, parts),
        "pass at 4": Arm("pass-at-k", OPTIONS, parts),
    },
    treatment="pass at 4",
    baselines=("GRPO",),
    measure=late("best"),
    measured="share of groups with a right answer in the last tenth of training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen2.5-7B on mazes",
        1_000_000,
        1,
        "8 A100 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "Groups of 8 stand for pass at 8.",
)
