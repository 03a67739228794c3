"""Back to Basics: Ahmadian and others (2024)."""

from __future__ import annotations

from forage.studies.claims.claim import Also, Arm, Claim, Paper, area, evaluated
from forage.studies.claims.text import ENVIRONMENT, LAPTOP, NOTE, OPTIONS, SMOKE, parts

CLAIM = Claim(
    title="Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human Feedback in LLMs",
    authors="Ahmadian, Cremer, Gallé, Fadaee, Kreutzer, Pietquin, Üstün, Hooker",
    year=2024,
    arxiv="2402.14740",
    statement="REINFORCE with the other answers' mean as a baseline does better than PPO with a critic.",
    environment=ENVIRONMENT,
    arms={
        "PPO": Arm("ppo-language", OPTIONS, parts),
        "RLOO": Arm("rloo", OPTIONS, parts),
    },
    treatment="RLOO",
    baselines=("PPO",),
    measure=evaluated,
    measured="share of held-out problems solved",
    also=(Also(area, "mean reward during training"),),
    laptop=LAPTOP,
    smoke=SMOKE,
    paper=Paper(
        "Pythia-6.9B on summaries of TL;DR",
        300_000,
        1,
        "GPUs for a large language model",
        lacks="a language model of that size; the number of steps is a rough one of answers",
    ),
    note=NOTE + "A verifier in place of a model of rewards. PPO makes 4 steps of each rollout, RLOO 2.",
)
