"""PPO on whole trajectories with the rest of the group as baseline: Chen and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

OPTIONS = {"num_envs": 64, "group_size": 8}

CLAIM = Claim(
    title="Reinforcement Learning for Long-Horizon Interactive LLM Agents",
    authors="Chen, Cusumano-Towner, Huval, Petrenko, Hamburger, Koltun, Krähenbühl",
    year=2025,
    arxiv="2502.01600",
    statement="Several passes over whole conversations learn more than the single on-policy step of REINFORCE.",
    environment="text:guess",
    arms={
        "RLOO": Arm("grpo", OPTIONS | {"advantage": "rloo", "loss": "reinforce", "aggregation": "token-mean"}),
        "GRPO": Arm("grpo", OPTIONS),
        "LOOP": Arm("loop", OPTIONS),
    },
    treatment="LOOP",
    baselines=("RLOO", "GRPO"),
    measure=evaluated,
    measured="share of held-out games won after training",
    laptop=Scale(12_800, tuple(range(1000, 1005))),
    smoke=Scale(256, (1000, 1001)),
    paper=Paper("AppWorld", 1_000_000, 1, "GPUs for a language model of 32 billion parameters", lacks="AppWorld"),
    note="A game of four turns in place of AppWorld's tasks of up to forty.",
)
