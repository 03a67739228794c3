"""Group Sequence Policy Optimization: Zheng and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Group Sequence Policy Optimization",
    authors="Zheng, Liu, Li, Chen, Yu, Gao, Dang, Liu, Men, Yang, Zhou, Lin",
    year=2025,
    arxiv="2507.18071",
    statement="One ratio for each answer learns more than one for each token from the same answers.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS | {"minibatches": 4}, parts),
        "GSPO": Arm("gspo", OPTIONS, parts),
    },
    treatment="GSPO",
    baselines=("GRPO",),
    measure=area,
    measured="mean reward during training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen3-30B-A3B on mathematics and code",
        10_000_000,
        1,
        "hundreds of GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "A dense model, where the paper finds most with experts.",
)
