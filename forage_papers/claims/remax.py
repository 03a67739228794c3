"""ReMax: Li and others (2023)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="ReMax: A Simple, Effective, and Efficient Reinforcement Learning Method for Aligning Large Language Models",
    authors="Li, Xu, Zhang, Lin, Yu, Sun, Luo",
    year=2023,
    arxiv="2310.10505",
    statement="The reward of the greedy answer as a baseline makes REINFORCE learn more.",
    environment=ENVIRONMENT,
    arms={
        "REINFORCE": Arm(
            "grpo",
            OPTIONS | {"group_size": 2, "advantage": "none", "loss": "reinforce", "aggregation": "sequence-sum"},
            parts,
        ),
        "ReMax": Arm("remax", OPTIONS | {"divergence": 0.0}, parts),
    },
    treatment="ReMax",
    baselines=("REINFORCE",),
    measure=evaluated,
    measured="share of held-out problems solved",
    also=(Also(area, "mean reward during training"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Llama-2-7B on preferences",
        100_000,
        1,
        "4 A800 GPUs",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE
    + "Half of ReMax's answers are greedy ones, which are counted among the 64 of a rollout. No divergence "
    + "in either arm.",
)
