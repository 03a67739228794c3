"""The answers and tokens that teach most: Wang and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated

OPTIONS = {"num_envs": 64}

CLAIM = Claim(
    title="Learning More with Less: A Dynamic Dual-Level Down-Sampling Framework for Efficient Policy Optimization",
    authors="Wang, Yang, Tian, Shi, Ma, Liu, Yao, Ding",
    year=2025,
    arxiv="2509.22115",
    statement="GRPO learns more from the same answers where it leaves out those that teach least at the beginning.",
    environment="text:addition",
    arms={
        "all answers": Arm("grpo", OPTIONS, lambda: {"environment_options": {"level": "0-7"}}),
        "D3S": Arm("d3s", OPTIONS, lambda: {"environment_options": {"level": "0-7"}}),
    },
    treatment="D3S",
    baselines=("all answers",),
    measure=evaluated,
    measured="share of right answers to problems held out",
    also=(Also(area, "reward over training"),),
    laptop=Scale(12_800, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-Math-7B on problems of mathematics",
        1_000_000,
        1,
        "GPUs and days",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Sums of one to eight digits, of which the base model has read those of up to six, and a model of a million "
    "parameters in place of one of billions; 200 updates of 64 answers, and shares of answers and tokens of our own.",
)
