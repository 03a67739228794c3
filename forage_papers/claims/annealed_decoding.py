"""A temperature that falls along each answer: Yang and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.behaviours.annealed_decoding import AnnealedDecoding

OPTIONS = {"num_envs": 64}
FALLING = AnnealedDecoding(decay=25.0, growth=0.0, head=0.0)

CLAIM = Claim(
    title="Let it Calm: Exploratory Annealed Decoding for Verifiable Reinforcement Learning",
    authors="Yang, Gui, Yang, Veitch, Zhang, Zhao",
    year=2025,
    arxiv="2510.05251",
    statement="GRPO learns more from the same answers where the temperature falls along each than at a fixed one.",
    environment="text:countdown",
    arms={
        "fixed temperature": Arm("grpo", OPTIONS),
        "falling temperature": Arm("grpo", OPTIONS, lambda: {"behaviour": FALLING}),
    },
    treatment="falling temperature",
    baselines=("fixed temperature",),
    measure=evaluated,
    measured="share of right answers",
    also=(Also(area, "reward during training"),),
    laptop=Scale(9_600, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-Math-7B on Numina-Math",
        1_000_000,
        1,
        "eight GPUs and days",
        lacks="the model and the problems; the number of steps is a rough one",
    ),
    note="Countdown with the base model of a million parameters in place of one of billions, and 150 updates. Answers "
    "are short, so the temperature falls over 25 tokens, without growth and without a template at the beginning.",
)
