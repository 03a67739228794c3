"""Several teachers where all answers fail: Yuan and others (2025)."""

from __future__ import annotations

import json
from typing import Any

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage.studies.claims.text import written
from forage_papers.memory.teachers import Teachers

OPTIONS = {"num_envs": 64, "entropy_coefficient": 0.001}
ENVIRONMENT = "text:addition"
PROBLEMS = {"level": 3, "problems": 64}


def few() -> dict[str, Any]:
    """Return problems that come again, of which all answers of a group are mostly wrong."""
    return {"environment_options": PROBLEMS}


def guided() -> dict[str, Any]:
    """Return the same with three teachers: the family's expert, and the base model, which tried often, twice."""
    options = json.dumps(PROBLEMS)
    says = ((640, None, 0), (4096, 1.0, 1), (4096, 0.7, 2))
    files = [written(ENVIRONMENT, options, *one) for one in says]
    return few() | {"memory": Teachers(files)}


CLAIM = Claim(
    title="More Than One Teacher: Adaptive Multi-Guidance Policy Optimization for Diverse Exploration",
    authors="Yuan, Ding, Bin, Shao, Cai, Song, Yang, Shen",
    year=2025,
    arxiv="2510.02227",
    statement="Right answers of several teachers where all of a group are wrong make GRPO learn more.",
    environment=ENVIRONMENT,
    arms={
        "own answers": Arm("dr-grpo", OPTIONS, few),
        "AMPO": Arm("ampo", OPTIONS, guided),
    },
    treatment="AMPO",
    baselines=("own answers",),
    measure=area,
    measured="reward during training, of own answers",
    also=(Also(evaluated, "share of right answers to problems that were held out"),),
    laptop=Scale(9_600, FRESH[:5]),
    smoke=Scale(128, (1000, 1001)),
    paper=Paper(
        "Qwen2.5-7B-Instruct on OpenR1-Math",
        522_240,
        1,
        "4 H100 GPUs",
        lacks="models of that size, and the answers of their four teachers; the number of steps is one of answers",
    ),
    note="64 sums of four digits each that come again, the base model of a million parameters, 150 updates. Three "
    "teachers: the expert of the problems and the base model at two temperatures, whose right answers among many are "
    "kept, stand for four models of the student's size.",
)
