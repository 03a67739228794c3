"""Evolution Strategies at Scale: Qiu and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, Scale, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, parts

CLAIM = Claim(
    title="Evolution Strategies at Scale: LLM Fine-Tuning Beyond Reinforcement Learning",
    authors="Qiu, Gan, Hayes, Liang, Meyerson, Hodjat, Miikkulainen",
    year=2025,
    arxiv="2509.24372",
    statement="Noise on all weights, weighed by rewards, improves a language model without gradients.",
    environment=ENVIRONMENT,
    arms={
        "first policy": Arm(
            "language-es", OPTIONS | {"learning_rate": 0.0, "sigma": 1e-06, "population": 16, "num_envs": 128}, parts
        ),
        "evolution": Arm(
            "language-es", OPTIONS | {"learning_rate": 0.02, "sigma": 0.01, "population": 16, "num_envs": 128}, parts
        ),
    },
    treatment="evolution",
    baselines=("first policy",),
    measure=evaluated,
    measured="share of held-out problems solved",
    also=(Also(area, "mean reward during training"),),
    laptop=LAPTOP,
    smoke=Scale(512, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-3B on Countdown",
        3_000_000,
        1,
        "4 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "16 members in mirrored pairs on 8 prompts each, with more noise than models of billions get.",
)
