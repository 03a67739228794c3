"""A flow that is guided to high returns plans better than one that is not: Zheng and others (2023)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (128, 128), "batch_size": 128, "learning_rate": 1e-3}
PLANS: dict[str, Any] = SMALL | {"horizon": 6, "discount": 0.95}


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.0,) * 5 + (0.5,) * 10 + (1.0,) * 10)}


CLAIM = Claim(
    title="Guided Flows for Generative Modeling and Decision Making",
    authors="Zheng, Le, Shaul, Lipman, Grover, Chen",
    year=2023,
    arxiv="2311.13443",
    statement="From data of all qualities, plans of a flow that is guided to high returns have higher returns than "
    "plans of the same flow without guidance, and than behaviour cloning.",
    environment="Pendulum-v1",
    arms={
        "behaviour cloning": Arm("bc", SMALL, data),
        "not guided": Arm("guided-flows", PLANS | {"guidance": 0.0}, data),
        "guided": Arm("guided-flows", PLANS, data),
    },
    treatment="guided",
    baselines=("behaviour cloning", "not guided"),
    measure=evaluated,
    measured="return",
    laptop=Scale(6000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 5, "a GPU and hours", lacks="the data sets of D4RL"),
    note="Five episodes of a rule that swings the pendulum up, ten in which half and ten in which all actions are "
    "random, in place of D4RL; plans of six states, and small networks.",
)
