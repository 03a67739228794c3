"""Difficulty aligned with competence: Kong and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.tasks.cdas import CDAS

OPTIONS = {"num_envs": 64}
PROBLEMS = {"environment_options": {"problems": 200, "level": "0-7"}}

CLAIM = Claim(
    title="Rethinking the Sampling Criteria in Reinforcement Learning for LLM Reasoning: A Competence-Difficulty "
    "Alignment Perspective",
    authors="Kong, Guo, Xi, Wang, Wang, Cai, Zhang, Ye",
    year=2025,
    arxiv="2505.17652",
    statement="Problems whose difficulty is nearest to the policy's competence teach more than problems drawn alike.",
    environment="text:addition",
    arms={
        "any problem": Arm("grpo", OPTIONS, lambda: dict(PROBLEMS)),
        "cdas": Arm("grpo", OPTIONS, lambda: PROBLEMS | {"tasks": CDAS()}),
    },
    treatment="cdas",
    baselines=("any problem",),
    measure=evaluated,
    measured="share of right answers to problems held out",
    also=(Also(area, "reward over training"),),
    laptop=Scale(12_800, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-7B on MATH", 1_000_000, 1, "GPUs and days", lacks="the model; the number of steps is a rough one"
    ),
    note="Sums of one to eight digits, of which the base model has read those of up to six, and a model of a "
    "million parameters in place of one of billions; 200 updates of 64 answers. 200 problems, so that each "
    "comes again within a run.",
)
