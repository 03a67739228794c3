"""Random Policy Valuation is Enough for LLM Reasoning with Verifiable Rewards: He and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, evaluated, late
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Random Policy Valuation is Enough for LLM Reasoning with Verifiable Rewards",
    authors="He, Ye, Cao, Ma, Wang, Zhang, Liu, Wang",
    year=2025,
    arxiv="2509.24981",
    statement="Values of the random policy find right answers to more prompts than GRPO.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS | {"minibatches": 4}, parts),
        "ROVER": Arm("rover", OPTIONS, parts),
    },
    treatment="ROVER",
    baselines=("GRPO",),
    measure=late("best"),
    measured="share of groups with a right answer in the last tenth of training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen3-8B on DeepScaleR",
        9_600_000,
        1,
        "8 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "Groups of 8 stand for pass at 8.",
)
