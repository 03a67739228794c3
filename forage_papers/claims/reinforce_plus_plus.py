"""REINFORCE++: Hu and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="REINFORCE++: A Simple and Efficient Approach for Aligning Large Language Models",
    authors="Hu, Liu, Shen",
    year=2025,
    arxiv="2501.03262",
    statement="Advantages that are normalised over the whole batch do better than those normalised in each group.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS | {"minibatches": 4, "aggregation": "token-mean"}, parts),
        "REINFORCE++": Arm("reinforce-plus-plus", OPTIONS, parts),
    },
    treatment="REINFORCE++",
    baselines=("GRPO",),
    measure=evaluated,
    measured="share of held-out problems solved",
    also=(Also(area, "mean reward during training"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Llama-3-8B and Qwen2.5-7B on preferences and mathematics",
        1_000_000,
        1,
        "8 H100 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE.strip(),
)
