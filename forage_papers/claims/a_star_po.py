"""Accelerating RL for LLM Reasoning with Optimal Advantage Regression: Brantley and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Rule, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Accelerating RL for LLM Reasoning with Optimal Advantage Regression",
    authors="Brantley, Chen, Gao, Lee, Sun, Zhan, Zhang",
    year=2025,
    arxiv="2505.20686",
    statement="Regression to the advantage over the optimal value does no worse than GRPO with several answers to a "
    "prompt.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS, parts),
        "A*-PO": Arm("a-star-po", OPTIONS | {"num_envs": 72}, parts),
    },
    treatment="A*-PO",
    baselines=("GRPO",),
    measure=evaluated,
    measured="share of held-out problems solved",
    rule=Rule(margin=-0.05),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen2.5-1.5B on GSM8K",
        186_825,
        1,
        "4 H100 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE
    + "The first policy's answers are drawn anew for each prompt, as prompts do not come back, and count as "
    + "steps; so the policy learns from a ninth of the answers.",
)
