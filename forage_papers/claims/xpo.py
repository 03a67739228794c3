"""Exploratory Preference Optimization: Xie and others (2024)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Exploratory Preference Optimization: Harnessing Implicit Q*-Approximation for Sample-Efficient RLHF",
    authors="Xie, Foster, Krishnamurthy, Rosset, Awadallah, Rakhlin",
    year=2024,
    arxiv="2405.21046",
    statement="A bonus for leaving what the first policy says makes online DPO learn more.",
    environment=ENVIRONMENT,
    arms={
        "online DPO": Arm("xpo", OPTIONS | {"optimism": 0.0}, parts),
        "XPO": Arm("xpo", OPTIONS | {"optimism": 0.001}, parts),
    },
    treatment="XPO",
    baselines=("online DPO",),
    measure=evaluated,
    measured="share of held-out problems solved",
    also=(Also(area, "mean reward during training"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Llama-3-8B on preferences",
        60_000,
        1,
        "8 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE
    + "Both arms compare with an answer of the first policy. Answers are short, and the bonus is larger "
    + "than TRL's 1e-5.",
)
