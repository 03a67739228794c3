"""RAFT: Dong and others (2023)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="RAFT: Reward Ranked FineTuning for Generative Foundation Model Alignment",
    authors="Dong, Xiong, Goyal, Zhang, Chow, Pan, Diao, Zhang, Shum, Zhang",
    year=2023,
    arxiv="2304.06767",
    statement="Fine-tuning on the best answer of each group raises the reward.",
    environment=ENVIRONMENT,
    arms={
        "first policy": Arm("raft", OPTIONS | {"learning_rate": 0.0}, parts),
        "RAFT": Arm("raft", OPTIONS, parts),
    },
    treatment="RAFT",
    baselines=("first policy",),
    measure=evaluated,
    measured="share of held-out problems solved",
    also=(Also(area, "mean reward during training"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "LLaMA-7B on preferences",
        640_000,
        1,
        "8 A100 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "An arm without learning stands for the policy that learning begins from.",
)
