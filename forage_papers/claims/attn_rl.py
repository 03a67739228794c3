"""Trees of answers that branch at influential steps: Liu and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.starts.attention_branches import AttentionBranches

CHAIN = {"num_envs": 120, "group_size": 30, "advantage": "rloo", "aggregation": "token-mean", "minibatches": 2}
TREE = {"num_envs": 24, "group_size": 6, "rollout_length": 5, "minibatches": 2}


def branched() -> dict[str, Any]:
    return {"environment_options": {"branches": True}}


def attended() -> dict[str, Any]:
    """Return the same with places two tokens apart, a sixteenth of the longest answer, as published."""
    return branched() | {"starts": AttentionBranches(apart=2)}


CLAIM = Claim(
    title="Attention as a Compass: Efficient Exploration for Process-Supervised RL in Reasoning Models",
    authors="Liu, Wang, Shi, Xie, An, Zhang, Zhao, Gu, Lin, Hu, Li, Zhang, Zhou, Gai",
    year=2025,
    arxiv="2509.26628",
    statement="Trees that branch at influential steps of prompts that still teach something learn more from as many "
    "answers than TreeRL's and than separate answers.",
    environment="text:countdown",
    arms={
        "chains": Arm("grpo", CHAIN, branched),
        "TreeRL": Arm("tree-rl", TREE, branched),
        "AttnRL": Arm("attn-rl", {"num_envs": 120}, attended),
    },
    treatment="AttnRL",
    baselines=("chains", "TreeRL"),
    measure=evaluated,
    measured="share of held-out problems solved after training",
    also=(Also(area, "share solved over training"),),
    laptop=Scale(12_600, tuple(range(1000, 1005))),
    smoke=Scale(240, (1000, 1001)),
    paper=Paper("mathematical problems", 1_000_000, 1, "8 GPUs for a language model of 1.5 billion", lacks="both"),
    note="120 answers to each update in all arms, thirty to a prompt in the others; AttnRL takes as many prompts as it "
    "can fill. Each token is a step, as in answers without line breaks.",
)
