"""An earlier success for groups that failed as a whole: Lu and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage_papers.memory.successes import Successes

OPTIONS = {"num_envs": 64}


def few() -> dict[str, Any]:
    """Return problems that come again, and are too hard for most answers."""
    return {"environment_options": {"level": 3, "problems": 64}}


def replayed() -> dict[str, Any]:
    """Return the same with successes that are replayed."""
    return few() | {"memory": Successes()}


CLAIM = Claim(
    title="ARPO: End-to-End Policy Optimization for GUI Agents with Experience Replay",
    authors="Lu, Zhong, Liu, Fu, Jia",
    year=2025,
    arxiv="2505.16282",
    statement="GRPO learns more where groups that fail as a whole get an earlier success to compare with.",
    environment="text:addition",
    arms={
        "last rollout": Arm("grpo", OPTIONS, few),
        "successes": Arm("grpo", OPTIONS, replayed),
    },
    treatment="successes",
    baselines=("last rollout",),
    measure=area,
    measured="reward during training",
    also=(Also(evaluated, "share of right answers to problems that were held out"),),
    laptop=Scale(9_600, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "UI-TARS-1.5-7B on OSWorld",
        15_360,
        1,
        "GPUs and many desktops",
        lacks="desktops and a model of pictures; the number of steps is a rough one",
    ),
    note="64 sums of four digits that come again stand for the paper's tasks on a desktop, with the base model "
    "of a million parameters in place of one of billions, and 150 updates. Their answers take one turn.",
)
