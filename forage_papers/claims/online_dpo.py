"""Direct Language Model Alignment from Online AI Feedback: Guo and others (2024)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Direct Language Model Alignment from Online AI Feedback",
    authors="Guo and others",
    year=2024,
    arxiv="2402.04792",
    statement="Preferences between answers of one's own raise the reward.",
    environment=ENVIRONMENT,
    arms={
        "first policy": Arm("online-dpo", OPTIONS | {"learning_rate": 0.0}, parts),
        "online DPO": Arm("online-dpo", OPTIONS | {"group_size": 8}, parts),
    },
    treatment="online DPO",
    baselines=("first policy",),
    measure=evaluated,
    measured="share of held-out problems solved",
    also=(Also(area, "mean reward during training"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "PaLM 2-XS on summaries",
        100_000,
        1,
        "accelerators for a large language model",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE
    + "A verifier in place of another model's feedback; the best and the worst of 8 answers. The paper "
    + "compares with learning from preferences that were collected beforehand, which is not done here.",
)
