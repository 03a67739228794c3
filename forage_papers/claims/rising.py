"""Levels that rise with success: Zeng and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.tasks.rising import Rising

OPTIONS = {"num_envs": 64}
PROBLEMS = {"environment_options": {"problems": 2000, "level": "0-7"}}

CLAIM = Claim(
    title="RLVE: Scaling Up Reinforcement Learning for Language Models with Adaptive Verifiable Environments",
    authors="Zeng, Ivison, Wang, Yuan and others",
    year=2025,
    arxiv="2511.07317",
    statement="Levels that rise with success teach more than all levels from the beginning.",
    environment="text:addition",
    arms={
        "any problem": Arm("grpo", OPTIONS, lambda: dict(PROBLEMS)),
        "rising": Arm("grpo", OPTIONS, lambda: PROBLEMS | {"tasks": Rising()}),
    },
    treatment="rising",
    baselines=("any problem",),
    measure=evaluated,
    measured="share of right answers to problems held out",
    also=(Also(area, "reward over training"),),
    laptop=Scale(12_800, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "OpenThinker3-1.5B on 400 environments",
        1_000_000,
        1,
        "GPUs and days",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Sums of one to eight digits, of which the base model has read those of up to six, and a model of a "
    "million parameters in place of one of billions; 200 updates of 64 answers. One family of problems in "
    "place of 400.",
)
