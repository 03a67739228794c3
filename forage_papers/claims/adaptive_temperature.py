"""A temperature that holds the entropy of the policy: Liao and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, evaluated, late
from forage_papers.behaviours.adaptive_temperature import AdaptiveTemperature

OPTIONS = {"num_envs": 64}

CLAIM = Claim(
    title="Enhancing Efficiency and Exploration in Reinforcement Learning for LLMs",
    authors="Liao, Xi, Chen, Leng, Hu, Zeng, Liu, Wan",
    year=2025,
    arxiv="2505.18573",
    statement="A temperature that holds the policy's entropy makes GRPO learn more than a fixed one.",
    environment="text:countdown",
    arms={
        "fixed temperature": Arm("grpo", OPTIONS),
        "held entropy": Arm("grpo", OPTIONS, lambda: {"behaviour": AdaptiveTemperature()}),
    },
    treatment="held entropy",
    baselines=("fixed temperature",),
    measure=evaluated,
    measured="share of right answers",
    also=(Also(late("entropy"), "entropy at the end of training, in nats a token"),),
    laptop=Scale(9_600, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "DeepSeek-R1-Distill-Qwen-1.5B on problems in mathematics",
        1_000_000,
        1,
        "GPUs",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Countdown with the base model of a million parameters in place of one of billions, and 150 updates. The "
    "paper also gives harder prompts more answers, which neither arm does.",
)
