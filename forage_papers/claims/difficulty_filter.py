"""Problems of medium difficulty: Bae and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.tasks.filtered import Filtered

OPTIONS = {"num_envs": 64}
PROBLEMS = {"environment_options": {"problems": 2000, "level": "0-7"}}

CLAIM = Claim(
    title="Online Difficulty Filtering for Reasoning Oriented Reinforcement Learning",
    authors="Bae, Hong, Lee, Kim, Nam, Kwak",
    year=2025,
    arxiv="2504.03380",
    statement="GRPO learns more from the same number of answers where problems are left out that are solved "
    "always or never.",
    environment="text:addition",
    arms={
        "any problem": Arm("grpo", OPTIONS, lambda: dict(PROBLEMS)),
        "filtered": Arm("grpo", OPTIONS, lambda: PROBLEMS | {"tasks": Filtered()}),
    },
    treatment="filtered",
    baselines=("any problem",),
    measure=evaluated,
    measured="share of right answers to problems held out",
    also=(Also(area, "reward over training"),),
    laptop=Scale(12_800, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-3B on NuminaMath", 1_000_000, 1, "GPUs and days", lacks="the model; the number of steps is a rough one"
    ),
    note="Sums of one to eight digits, of which the base model has read those of up to six, and a model of a "
    "million parameters in place of one of billions; 200 updates of 64 answers. The filter is before the "
    "rollout, by what a problem's last group did.",
)
