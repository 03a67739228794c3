"""RL-PLUS: Dong and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, evaluated, late
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="RL-PLUS: Countering Capability Boundary Collapse of LLMs in Reinforcement Learning with Hybrid- "
    "policy Optimization",
    authors="Dong and others",
    year=2025,
    arxiv="2508.00222",
    statement="References among the answers find right answers to more prompts than GRPO.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS | {"aggregation": "token-mean"}, parts),
        "RL-PLUS": Arm("rl-plus", OPTIONS, parts),
    },
    treatment="RL-PLUS",
    baselines=("GRPO",),
    measure=late("best"),
    measured="share of groups with a right answer in the last tenth of training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen2.5-Math-7B on OpenR1-Math",
        512_000,
        1,
        "8 A100 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "References are those of the family's own solver, which the base model has read of other problems.",
)
