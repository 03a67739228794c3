"""Uninformative problems are skipped beforehand: Zheng and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.tasks.greso import Greso

OPTIONS = {"num_envs": 64}
PROBLEMS = {"environment_options": {"problems": 200, "level": "0-7"}}

CLAIM = Claim(
    title="Act Only When It Pays: Efficient Reinforcement Learning for LLM Reasoning via Selective Rollouts",
    authors="Zheng, Zhou, Bartoldson, Kailkhura, Lai, Zhao, Chen",
    year=2025,
    arxiv="2506.02177",
    statement="GRPO learns more from the same number of answers where problems whose groups were all alike are "
    "mostly skipped.",
    environment="text:addition",
    arms={
        "any problem": Arm("grpo", OPTIONS, lambda: dict(PROBLEMS)),
        "greso": Arm("grpo", OPTIONS, lambda: PROBLEMS | {"tasks": Greso()}),
    },
    treatment="greso",
    baselines=("any problem",),
    measure=evaluated,
    measured="share of right answers to problems held out",
    also=(Also(area, "reward over training"),),
    laptop=Scale(12_800, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-Math-1.5B on DAPO and MATH",
        1_000_000,
        1,
        "GPUs and days",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Sums of one to eight digits, of which the base model has read those of up to six, and a model of a "
    "million parameters in place of one of billions; 200 updates of 64 answers. 200 problems, so that each "
    "comes again within a run.",
)
