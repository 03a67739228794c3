"""Values fitted by the conjugate of a divergence do what the expectile does: Sikchi and others (2023)."""

from __future__ import annotations

from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Rule, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.5,) * 20), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Dual RL: Unification and New Methods for Reinforcement and Imitation Learning",
    authors="Sikchi, Zheng, Zhang, Niekum",
    year=2023,
    arxiv="2302.08560",
    statement="From data in which good and bad actions are mixed, dual value learning has returns no more than 100 "
    "below those of implicit Q-learning.",
    environment="Pendulum-v1",
    arms={
        "behaviour cloning": Arm("bc", SMALL, data),
        "IQL": Arm("iql", SMALL, data),
        "f-DVL": Arm("f-dvl", SMALL, data),
    },
    treatment="f-DVL",
    baselines=("IQL",),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 7, "a GPU and hours", lacks="the data sets of D4RL"),
    rule=Rule(margin=-100.0),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, in place of D4RL. Chi-"
    "square with an optimism of 0.8. Cloning is shown beside it.",
)
