"""Own good answers, replayed with advantages over what is usual now: Qin and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.memory.self_imitation import SelfImitation

OPTIONS = {"num_envs": 64}
REPLAY = SelfImitation(ascent=75.0)

CLAIM = Claim(
    title="Learn the Ropes, Then Trust the Wins: Self-imitation with Progressive Exploration for Agentic Reinforcement "
    "Learning",
    authors="Qin, Tan, He, Li, Lin, Li, Xu, Shi, Cai, Rui, Cai, Cai, Zhang, Ye, Li, Sun",
    year=2025,
    arxiv="2509.22601",
    statement="GRPO learns more where its own good answers are replayed, the more of them the longer it has learned.",
    environment="text:countdown",
    arms={
        "last rollout": Arm("grpo", OPTIONS),
        "self-imitation": Arm("grpo", OPTIONS, lambda: {"memory": REPLAY}),
    },
    treatment="self-imitation",
    baselines=("last rollout",),
    measure=evaluated,
    measured="share of right answers",
    also=(Also(area, "reward during training"),),
    laptop=Scale(9_600, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-32B with a code interpreter on DAPO-Math-17k",
        1_000_000,
        1,
        "GPUs and days",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Countdown with the base model of a million parameters in place of one of billions, and 150 updates, and so a "
    "weight that rises over 75 of them rather than 200; answers take one turn and call no tool, so nothing is "
    "paid for calls.",
)
