"""Trees of answers and the values of their parts: Hou and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

CHAIN = {"num_envs": 180, "group_size": 30, "advantage": "rloo", "aggregation": "token-mean"}
TREE = {"num_envs": 36, "group_size": 6, "rollout_length": 5}


def branched() -> dict[str, Any]:
    return {"environment_options": {"branches": True}}


CLAIM = Claim(
    title="TreeRL: LLM Reinforcement Learning with On-Policy Tree Search",
    authors="Hou, Hu, Li, Lu, Tang, Dong",
    year=2025,
    arxiv="2506.11902",
    statement="Trees of answers with values of their parts teach more than as many separate answers.",
    environment="text:countdown",
    arms={
        "chains": Arm("grpo", CHAIN, branched),
        "TreeRL": Arm("tree-rl", TREE, branched),
    },
    treatment="TreeRL",
    baselines=("chains",),
    measure=evaluated,
    measured="share of held-out problems solved after training",
    laptop=Scale(12_600, tuple(range(1000, 1005))),
    smoke=Scale(180, (1000, 1001)),
    paper=Paper(
        "mathematical problems", 1_000_000, 1, "GPUs for a language model of 9 billion parameters", lacks="both"
    ),
    note="Thirty answers to a prompt in both arms, as published: six, cut in two places, and two from each of them. "
    "The paper compares at the same number of tokens, of which a tree writes fewer than thirty whole answers.",
)
