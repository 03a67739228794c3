"""Right answers that are written unlike the others: Hu and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, evaluated, late
from forage_papers.rewards.verifiers.diversity import Diversity

OPTIONS = {"num_envs": 64}

CLAIM = Claim(
    title="Diversity-Incentivized Exploration for Versatile Reasoning",
    authors="Hu, Zhang, Li, Yan, Hu, Cui, Qu, Chen, Cheng, Wang",
    year=2025,
    arxiv="2509.26209",
    statement="A bonus for right answers that differ from the others of their group makes GRPO learn more.",
    environment="text:countdown",
    arms={
        "truth": Arm("grpo", OPTIONS),
        "truth and diversity": Arm("grpo", OPTIONS, lambda: {"rewards": Diversity()}),
    },
    treatment="truth and diversity",
    baselines=("truth",),
    measure=evaluated,
    measured="share of right answers",
    also=(Also(late("entropy"), "entropy at the end of training, in nats a token"),),
    laptop=Scale(9_600, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-Math-7B on OpenR1-Math",
        1_000_000,
        1,
        "eight GPUs and days",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Countdown with the base model of a million parameters in place of one of billions, and 150 updates. The "
    "paper finds more with many answers to a problem (pass@k) than with one.",
)
