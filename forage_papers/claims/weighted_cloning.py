"""Cloning better episodes more is better than cloning all alike: Chen and others (2021), Wang and others (2018)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.0,) * 4 + (1.0,) * 36)}


CLAIM = Claim(
    title="Decision Transformer: Reinforcement Learning via Sequence Modeling",
    authors="Chen, Lu, Rajeswaran, Lee, Grover, Laskin, Abbeel, Srinivas, Mordatch",
    year=2021,
    arxiv="2106.01345",
    statement="Behaviour cloning of the best tenth of mixed episodes has higher returns than that of all.",
    environment="Pendulum-v1",
    arms={
        "all alike": Arm("bc", SMALL, data),
        "the best tenth": Arm("bc", SMALL | {"best": 0.1}, data),
        "weighted": Arm("bc", SMALL | {"weighted": True}, data),
    },
    treatment="the best tenth",
    baselines=("all alike",),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, FRESH[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 100_000, 3, "a GPU and hours", lacks="the data sets of D4RL"),
    note="Four episodes of a rule that swings the pendulum up among 36 of random actions. Weights by exponentials of "
    "advantages (Wang and others, 2018, Exponentially Weighted Imitation Learning) stand beside it.",
)
