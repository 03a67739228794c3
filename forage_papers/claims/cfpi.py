"""One step from the behaviour, of which a formula says where to: Li and others (2023)."""

from __future__ import annotations

from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.5,) * 20), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Offline Reinforcement Learning with Closed-Form Policy Improvement Operators",
    authors="Li, Zhang, Yin, Bai, Wang, Wang",
    year=2023,
    arxiv="2211.15956",
    statement="A closed-form step within a trust region about the cloned behaviour has higher returns than the best "
    "Gaussian of that behaviour, and than behaviour cloning.",
    environment="Pendulum-v1",
    arms={
        "behaviour cloning": Arm("bc", SMALL, data),
        "no step": Arm("cfpi", SMALL | {"trust": 0.0}, data),
        "step": Arm("cfpi", SMALL, data),
    },
    treatment="step",
    baselines=("behaviour cloning", "no step"),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "a GPU and hours", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, in place of D4RL; four "
    "Gaussians, and critics of implicit Q-learning with an expectile of 1/2 in place of implicit quantile networks.",
)
