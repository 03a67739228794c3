"""Each other's baseline: Kool, van Hoof, Welling (2019); Ahmadian et al. (2024)."""

from __future__ import annotations

from typing import Any

from forage.starts.groups import Groups
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

OPTIONS = {"num_envs": 16, "rollout_length": 500, "learning_rate": 1e-2}


def grouped() -> dict[str, Any]:
    """Eight episodes of every initial state, in all arms."""
    return {"starts": Groups(8)}


CLAIM = Claim(
    title="Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human Feedback in LLMs",
    authors="Ahmadian, Cremer, Gallé, Fadaee, Kreutzer, Pietquin, Üstün, Hooker",
    year=2024,
    arxiv="2402.14740",
    statement="Episodes that share a start, as each other's baseline, make REINFORCE learn more from the same steps.",
    environment="CartPole-v1",
    arms={
        "no baseline": Arm("reinforce", OPTIONS | {"baseline": "none"}, grouped),
        "mean of the rollout": Arm("reinforce", OPTIONS | {"baseline": "mean"}, grouped),
        "rest of the group": Arm("reinforce", OPTIONS | {"baseline": "group"}, grouped),
    },
    treatment="rest of the group",
    baselines=("no baseline",),
    measure=area,
    measured="mean return during training",
    laptop=Scale(400_000),
    smoke=Scale(16_000, (1000, 1001)),
    paper=Paper(
        "Pythia-6.9B on summaries of TL;DR",
        300_000,  # completions, roughly
        1,
        "GPUs for a large language model",
        lacks="language models; the number of steps is a rough one of completions",
    ),
    note="An initial state of CartPole stands for a prompt, an episode for its completion. Initial states are much "
    "alike, so the mean of the whole rollout is shown beside it and decides nothing. The end of a rollout drops the "
    "episodes under way, in all arms; without a baseline that hurts more, as all that was kept is then reinforced.",
)
