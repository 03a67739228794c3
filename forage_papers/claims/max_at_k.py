"""The Best of N Worlds: Bagirov and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, evaluated, late
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="The Best of N Worlds: Aligning Reinforcement Learning with Best-of-N Sampling via max@k Optimisation",
    authors="Bagirov, Arkhipov, Sycheva, Glukhov, Bogomolov",
    year=2025,
    arxiv="2510.23393",
    statement="The gradient of the best of k makes the best answer of a group better than plain policy gradients do.",
    environment=ENVIRONMENT,
    arms={
        "REINFORCE": Arm("grpo", OPTIONS | {"advantage": "dr-grpo", "aggregation": "sequence-sum"}, parts),
        "best of 4": Arm("max-at-k", OPTIONS, parts),
    },
    treatment="best of 4",
    baselines=("REINFORCE",),
    measure=late("best"),
    measured="share of groups with a right answer in the last tenth of training",
    also=(Also(evaluated, "share of held-out problems solved"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen2.5-Coder-7B on code",
        1_000_000,
        1,
        "8 H100 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "Rewards are 0 or 1, where the paper has shares of tests.",
)
