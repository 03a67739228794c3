"""Maximum Likelihood Reinforcement Learning: Tajwar and others (2026)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, evaluated, late
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Maximum Likelihood Reinforcement Learning",
    authors="Tajwar and others",
    year=2026,
    arxiv="2602.02710",
    statement="Advantages over the mean reward find right answers to more prompts than GRPO's.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS, parts),
        "MaxRL": Arm("max-rl", OPTIONS, parts),
    },
    treatment="MaxRL",
    baselines=("GRPO",),
    measure=late("best"),
    measured="share of groups with a right answer in the last tenth of training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen3-4B on mathematics",
        1_000_000,
        1,
        "8 H100 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "Groups of 8 stand for pass at 8.",
)
