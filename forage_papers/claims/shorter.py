"""Answers of the length of the shortest right one: Yi, Wang, Li (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Rule, Scale, evaluated, late
from forage_papers.rewards.verifiers.shorter import Shorter

OPTIONS = {"num_envs": 64}

CLAIM = Claim(
    title="ShorterBetter: Guiding Reasoning Models to Find Optimal Inference Length for Efficient Reasoning",
    authors="Yi, Wang, Li",
    year=2025,
    arxiv="2504.21370",
    statement="A reward for the length of the group's shortest right answer makes answers shorter.",
    environment="text:arithmetic",
    arms={
        "truth": Arm("grpo", OPTIONS),
        "truth and length": Arm("grpo", OPTIONS, lambda: {"rewards": Shorter(price=0.01)}),
    },
    treatment="truth and length",
    baselines=("truth",),
    measure=late("length"),
    measured="tokens of an answer at the end of training",
    also=(Also(evaluated, "share of right answers"),),
    rule=Rule(higher=False),
    laptop=Scale(9_600, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "DeepSeek-R1-Distill-Qwen-1.5B on DeepScaleR",
        1_000_000,
        1,
        "GPUs and days",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Arithmetic with the base model of a million parameters in place of one of billions, and 150 updates. A token "
    "costs 0.01 rather than 0.001, as answers are a hundred times shorter. That as many answers are right is "
    "shown beside it and decides nothing.",
)
