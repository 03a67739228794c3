"""Stable Reinforcement Learning for Efficient Reasoning: Dai and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, Rule, evaluated, late
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Stable Reinforcement Learning for Efficient Reasoning",
    authors="Dai, Liu, Si",
    year=2025,
    arxiv="2505.18086",
    statement="Asking for short answers only where most are right shortens answers.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS, parts),
        "GRPO-lambda": Arm("grpo-lambda", OPTIONS | {"share": 0.5}, parts),
    },
    treatment="GRPO-lambda",
    baselines=("GRPO",),
    measure=late("length"),
    measured="tokens of an answer in the last tenth of training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    rule=Rule(higher=False),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen3-8B on GSM8K",
        1_000_000,
        1,
        "8 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "Half of the groups may be asked, of 8 in a rollout.",
)
