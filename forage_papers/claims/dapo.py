"""DAPO: Yu and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, evaluated, late
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="DAPO: An Open-Source LLM Reinforcement Learning System at Scale",
    authors="Yu and others",
    year=2025,
    arxiv="2503.14476",
    statement="With a higher upper bound of the ratio the policy keeps more entropy.",
    environment=ENVIRONMENT,
    arms={
        "equal bounds": Arm("dapo", OPTIONS | {"high": 0.2, "group_size": 8}, parts),
        "clip higher": Arm("dapo", OPTIONS | {"group_size": 8}, parts),
    },
    treatment="clip higher",
    baselines=("equal bounds",),
    measure=late("entropy"),
    measured="entropy of tokens in the last tenth of training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen2.5-32B on DAPO-Math-17k",
        40_960_000,
        1,
        "128 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "8 answers to a prompt and 4 steps of each rollout.",
)
