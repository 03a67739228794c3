"""Difficulty that follows the reward: Shi and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.tasks.adaptive_difficulty import AdaptiveDifficulty

OPTIONS = {"num_envs": 64}
PROBLEMS = {"environment_options": {"problems": 2000, "level": "0-7"}}

CLAIM = Claim(
    title="Efficient Reinforcement Finetuning via Adaptive Curriculum Learning",
    authors="Shi, Wu, Song, Zhou, Zhao",
    year=2025,
    arxiv="2504.05520",
    statement="Problems near a target difficulty that follows the reward teach more than problems of all difficulties.",
    environment="text:addition",
    arms={
        "any problem": Arm("grpo", OPTIONS, lambda: dict(PROBLEMS)),
        "adaptive difficulty": Arm("grpo", OPTIONS, lambda: PROBLEMS | {"tasks": AdaptiveDifficulty()}),
    },
    treatment="adaptive difficulty",
    baselines=("any problem",),
    measure=evaluated,
    measured="share of right answers to problems held out",
    also=(Also(area, "reward over training"),),
    laptop=Scale(12_800, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-Math-1.5B on DeepScaleR",
        1_000_000,
        1,
        "GPUs and days",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Sums of one to eight digits, of which the base model has read those of up to six, and a model of a "
    "million parameters in place of one of billions; 200 updates of 64 answers. Difficulty is the level; "
    "GRPO in place of PPO.",
)
