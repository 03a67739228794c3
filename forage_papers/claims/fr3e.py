"""Answers that go on from uncertain tokens: Zheng and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

PLAIN = {"num_envs": 160, "group_size": 8, "advantage": "dr-grpo", "aggregation": "token-mean", "alike": "drop"}
TREE = {"num_envs": 32, "group_size": 8, "rollout_length": 5}


def branched() -> dict[str, Any]:
    return {"environment_options": {"branches": True}}


CLAIM = Claim(
    title="First Return, Entropy-Eliciting Explore",
    authors="Zheng, Xing, Gu, Liang, Qu, Zhou, Li, Wen, Lin, Huang, Liu, Zhang, Ma",
    year=2025,
    arxiv="2507.07017",
    statement="Groups of answers that go on from uncertain tokens teach more than as many answers to prompts alone.",
    environment="text:countdown",
    arms={
        "GRPO": Arm("grpo", PLAIN | {"low": 0.22, "high": 0.28}, branched),
        "FR3E": Arm("fr3e", TREE, branched),
    },
    treatment="FR3E",
    baselines=("GRPO",),
    measure=evaluated,
    measured="share of held-out problems solved after training",
    laptop=Scale(12_800, tuple(range(1000, 1005))),
    smoke=Scale(320, (1000, 1001)),
    paper=Paper(
        "mathematical problems", 1_000_000, 1, "GPUs for a language model of 7 billion parameters", lacks="both"
    ),
    note="Both arms write as many answers to an update, 160, and are trained on all of them. One answer in eight of "
    "those to a prompt is cut, in four places.",
)
