"""Hints where nobody succeeds: Liu and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.tasks.hints import Hints

OPTIONS = {"num_envs": 64}
PROBLEMS = {"environment_options": {"problems": 1000, "level": "2-4", "hints": 0.9}}

CLAIM = Claim(
    title="GHPO: Adaptive Guidance for Stable and Efficient LLM Reinforcement Learning",
    authors="Liu, Gong, Fu, Liu, Chen, Hu, Zhang, Li, Zhang, Tu",
    year=2025,
    arxiv="2507.10628",
    statement="Hints for problems that no answer solves teach GRPO more than these problems alone.",
    environment="text:countdown",
    arms={
        "no hints": Arm("grpo", OPTIONS, lambda: dict(PROBLEMS)),
        "hints": Arm("grpo", OPTIONS, lambda: PROBLEMS | {"tasks": Hints()}),
    },
    treatment="hints",
    baselines=("no hints",),
    measure=evaluated,
    measured="share of right answers to problems held out",
    also=(Also(area, "reward over training"),),
    laptop=Scale(12_800, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-7B on math3to5_olympiads_aime",
        1_000_000,
        1,
        "GPUs and days",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Countdown with four to six numbers, of which the base model has read those with four, and a model of a "
    "million parameters in place of one of billions; 200 updates of 64 answers. The policy goes on from the "
    "hint, and hints come in the rollouts that follow.",
)
