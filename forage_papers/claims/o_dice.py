"""A backward gradient without what would undo the forward one: Mao and others (2024)."""

from __future__ import annotations

from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "value_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.5,) * 20), "rewards": Scaled(1.0)}


CLAIM = Claim(
    title="ODICE: Revealing the Mystery of Distribution Correction Estimation via Orthogonal-gradient Update",
    authors="Mao, Xu, Zhang, Zhan",
    year=2024,
    arxiv="2402.00348",
    statement="Values learned by the orthogonal gradient lead to higher returns than values learned by the forward "
    "gradient alone.",
    environment="Pendulum-v1",
    arms={
        "forward alone": Arm("o-dice", SMALL | {"strength": 0.0}, data),
        "orthogonal": Arm("o-dice", SMALL, data),
    },
    treatment="orthogonal",
    baselines=("forward alone",),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 1_000_000, 5, "a GPU and hours", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, in place of D4RL; their "
    "returns span about 1,000 as they are. The paper also compares with the true gradient, which is not here.",
)
