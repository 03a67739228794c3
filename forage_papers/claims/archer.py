"""A critic of turns above a policy of tokens: Zhou and others (2024)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

CLAIM = Claim(
    title="ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL",
    authors="Zhou, Zanette, Pan, Levine, Kumar",
    year=2024,
    arxiv="2402.19446",
    statement="Off-policy values of turns teach a policy more from the same steps than on-policy returns do.",
    environment="text:guess",
    arms={
        "on-policy returns": Arm(
            "grpo", {"num_envs": 64, "group_size": 8, "advantage": "reinforce++", "aggregation": "token-mean"}
        ),
        "ArCHer": Arm("archer", {"num_envs": 64}),
    },
    treatment="ArCHer",
    baselines=("on-policy returns",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(12_800, tuple(range(1000, 1005))),
    smoke=Scale(1536, (1000, 1001)),
    paper=Paper("Twenty Questions and others", 100_000, 1, "a GPU for GPT-2", lacks="its games that need a model"),
    note="A game of four turns in place of those of twenty.",
)
