"""Understanding R1-Zero-Like Training: Liu and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, Rule, evaluated, late
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Understanding R1-Zero-Like Training: A Critical Perspective",
    authors="Liu, Chen, Li, Qi, Pang, Du, Lee, Lin",
    year=2025,
    arxiv="2503.20783",
    statement="Without a mean over each answer's tokens and without the deviation, GRPO's answers stay shorter.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS, parts),
        "Dr. GRPO": Arm("dr-grpo", OPTIONS, parts),
    },
    treatment="Dr. GRPO",
    baselines=("GRPO",),
    measure=late("length"),
    measured="tokens of an answer in the last tenth of training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    rule=Rule(higher=False),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen2.5-Math-7B on MATH",
        64_000,
        1,
        "8 A100 GPUs for a day",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "Length is that of all answers, right or wrong, where the paper shows wrong ones apart.",
)
