"""Part I: Liu and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Part I: Tricks or Traps? A Deep Dive into RL for LLM Reasoning",
    authors="Liu and others",
    year=2025,
    arxiv="2508.08221",
    statement="The group's mean, the batch's deviation and a mean over tokens do better than GRPO.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS, parts),
        "Lite PPO": Arm("lite-ppo", OPTIONS, parts),
    },
    treatment="Lite PPO",
    baselines=("GRPO",),
    measure=evaluated,
    measured="share of held-out problems solved",
    also=(Also(area, "mean reward during training"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen3-8B base on mathematics",
        500_000,
        1,
        "8 H100 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE.strip(),
)
