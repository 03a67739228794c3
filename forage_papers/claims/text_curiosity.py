"""A bonus for answers that surprise the policy: Dai and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, evaluated, late
from forage_papers.rewards.verifiers.perplexity import TextCuriosity

OPTIONS = {"num_envs": 64}

CLAIM = Claim(
    title="CDE: Curiosity-Driven Exploration for Efficient Reinforcement Learning in Large Language Models",
    authors="Dai, Song, Liu, Liang, Yu, Mi, Tu, Liu, Zheng, Zhu, Yu",
    year=2025,
    arxiv="2509.09675",
    statement="A bonus for answers that are improbable under the policy itself makes GRPO learn more.",
    environment="text:countdown",
    arms={
        "truth": Arm("grpo", OPTIONS),
        "truth and curiosity": Arm("grpo", OPTIONS, lambda: {"rewards": TextCuriosity()}),
    },
    treatment="truth and curiosity",
    baselines=("truth",),
    measure=evaluated,
    measured="share of right answers",
    also=(Also(late("entropy"), "entropy at the end of training, in nats a token"),),
    laptop=Scale(9_600, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen3-4B on DAPO-17K",
        1_000_000,
        1,
        "GPUs and days",
        lacks="the model, and the critic's bonus; the number of steps is a rough one",
    ),
    note="Countdown with the base model of a million parameters in place of one of billions, and 150 updates, and the "
    "actor's bonus alone.",
)
