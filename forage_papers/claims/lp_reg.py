"""Lp-Reg: Huang and others (2025)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, evaluated, late
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Low-probability Tokens Sustain Exploration in Reinforcement Learning with Verifiable Reward",
    authors="Huang and others",
    year=2025,
    arxiv="2510.03222",
    statement="Shielding improbable tokens that are no noise does better than GRPO.",
    environment=ENVIRONMENT,
    arms={
        "GRPO": Arm("grpo", OPTIONS | {"aggregation": "token-mean"}, parts),
        "Lp-Reg": Arm("lp-reg", OPTIONS, parts),
    },
    treatment="Lp-Reg",
    baselines=("GRPO",),
    measure=evaluated,
    measured="share of held-out problems solved",
    also=(Also(late("entropy"), "entropy of tokens in the last tenth of training"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Qwen3-14B on mathematics",
        2_000_000,
        1,
        "64 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "With a hundredth of the bad tokens there are few to shield in answers this short.",
)
