"""A policy of one step that stays near a flow and climbs the critics: Park, Li and Levine (2025)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up


def mixed() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.3,) * 20 + (0.7,) * 20)}


OPTIONS = {"hidden_sizes": (64, 64), "learning_rate": 1e-3, "normalise_value": True}

CLAIM = Claim(
    title="Flow Q-Learning",
    authors="Park, Li, Levine",
    year=2025,
    arxiv="2502.02538",
    statement="A policy that climbs critics near a flow of the data gets higher returns than the flow that it follows.",
    environment="Pendulum-v1",
    arms={
        "the flow alone": Arm("fql", OPTIONS | {"alpha": 1e5}, mixed),
        "flow Q-learning": Arm("fql", OPTIONS | {"alpha": 3.0}, mixed),
    },
    treatment="flow Q-learning",
    baselines=("the flow alone",),
    measure=evaluated,
    measured="return",
    laptop=Scale(6000, tuple(range(1000, 1005))),
    smoke=Scale(40, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 1_000_000, 8, "a GPU and hours", lacks="the data sets of OGBench and D4RL"),
    note="Pendulum and a swing-up by energy, with three and seven tenths of its torques at random, in place of OGBench "
    "and D4RL; small networks. A large alpha leaves the policy nothing but to imitate the flow.",
)
