"""A bonus for answers that a model reads as unlike the others: Tuyls and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, evaluated, late
from forage_papers.rewards.verifiers.representation import Representation

OPTIONS = {"num_envs": 64}

CLAIM = Claim(
    title="Representation-Based Exploration for Language Models: From Test-Time to Post-Training",
    authors="Tuyls, Foster, Krishnamurthy, Ash",
    year=2025,
    arxiv="2510.11686",
    statement="A bonus by the hidden states of the pretrained model makes GRPO learn more.",
    environment="text:countdown",
    arms={
        "truth": Arm("grpo", OPTIONS),
        "truth and novelty": Arm("grpo", OPTIONS, lambda: {"rewards": Representation()}),
    },
    treatment="truth and novelty",
    baselines=("truth",),
    measure=evaluated,
    measured="share of right answers",
    also=(Also(late("entropy"), "entropy at the end of training, in nats a token"),),
    laptop=Scale(9_600, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-7B-Instruct on MATH",
        20_000_000,
        3,
        "eight GPUs and days",
        lacks="the model; the number of steps is a rough one",
    ),
    note="Countdown with the base model of a million parameters in place of one of billions, and 150 updates. The "
    "paper's measure is pass@k, right answers among many.",
)
