"""More answers to hard problems: Yang and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.tasks.dars import DARS

OPTIONS = {"num_envs": 64}
PROBLEMS = {"environment_options": {"problems": 2000, "level": "0-7"}}

CLAIM = Claim(
    title="Depth-Breadth Synergy in RLVR: Unlocking LLM Reasoning Gains with Adaptive Exploration",
    authors="Yang, Guo, Huang, Wang, Xie, Liang, Tang",
    year=2025,
    arxiv="2508.13755",
    statement="More answers to hard problems teach more than as many answers to each problem.",
    environment="text:addition",
    arms={
        "any problem": Arm("grpo", OPTIONS, lambda: dict(PROBLEMS)),
        "dars": Arm("grpo", OPTIONS, lambda: PROBLEMS | {"tasks": DARS()}),
    },
    treatment="dars",
    baselines=("any problem",),
    measure=evaluated,
    measured="share of right answers to problems held out",
    also=(Also(area, "reward over training"),),
    laptop=Scale(12_800, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-Math-1.5B on OpenR1-45K",
        1_000_000,
        1,
        "GPUs and days",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Sums of one to eight digits, of which the base model has read those of up to six, and a model of a "
    "million parameters in place of one of billions; 200 updates of 64 answers. Mean success is compared, "
    "and not the success of the best of many answers; extra groups come in the rollouts that follow.",
)
