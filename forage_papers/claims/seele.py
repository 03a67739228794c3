"""Hints that keep half of the answers right: Li and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.tasks.seele import Seele

OPTIONS = {"num_envs": 64}
PROBLEMS = {"environment_options": {"problems": 1000, "level": "2-4", "hints": 0.9}}

CLAIM = Claim(
    title="Staying in the Sweet Spot: Responsive Reasoning Evolution via Capability-Adaptive Hint Scaffolding",
    authors="Li, Sun, Zhao, Min, Zeng, Wu, Cai, Wang, Yin, Chen, Deng",
    year=2025,
    arxiv="2509.06923",
    statement="Hints with which half of the answers are right teach GRPO more than no hints.",
    environment="text:countdown",
    arms={
        "no hints": Arm("grpo", OPTIONS, lambda: dict(PROBLEMS)),
        "seele": Arm("grpo", OPTIONS, lambda: PROBLEMS | {"tasks": Seele()}),
    },
    treatment="seele",
    baselines=("no hints",),
    measure=evaluated,
    measured="share of right answers to problems held out",
    also=(Also(area, "reward over training"),),
    laptop=Scale(12_800, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-3B on problems of mathematics with solutions",
        1_000_000,
        1,
        "GPUs and days",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Countdown with four to six numbers, of which the base model has read those with four, and a model of a "
    "million parameters in place of one of billions; 200 updates of 64 answers. The rounds of a problem are "
    "rollouts one after the other.",
)
