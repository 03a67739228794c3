"""Rewards of turns by what each contributes to the end: Wang and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.rewards.verifiers.progress import Progress

OPTIONS = {"num_envs": 64}

CLAIM = Claim(
    title="SPA-RL: Reinforcing LLM Agents via Stepwise Progress Attribution",
    authors="Wang, Leong, Wang, Wang, Li",
    year=2025,
    arxiv="2505.20732",
    statement="PPO learns more where each turn is paid what an estimator attributes to it and for being carried out.",
    environment="text:guess",
    arms={
        "final reward": Arm("ppo-language", OPTIONS),
        "contributions": Arm("ppo-language", OPTIONS, lambda: {"rewards": Progress()}),
    },
    treatment="contributions",
    baselines=("final reward",),
    measure=evaluated,
    measured="share of held-out games won after training",
    also=(Also(area, "share of games won during training"),),
    laptop=Scale(12_800, FRESH[:5]),
    smoke=Scale(1536, (1000, 1001)),
    paper=Paper(
        "ALFWorld, WebShop and VirtualHome",
        100_000,
        1,
        "4 A100 GPUs for a language model of 3 billion parameters",
        lacks="these environments and a model of that size; the number of steps is a rough one of turns",
    ),
    note="A game of four turns in place of households and shops. The estimator learns from the policy's own rollouts, "
    "and pays after a tenth of the run; there it learns first, from a policy that imitated an expert.",
)
