"""Values of actions in the data alone, and a policy that copies the better ones: Kostrikov, Nair and Levine (2021)."""

from __future__ import annotations

from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.5,) * 20), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Offline Reinforcement Learning with Implicit Q-Learning",
    authors="Kostrikov, Nair, Levine",
    year=2021,
    arxiv="2110.06169",
    statement="From data in which good and bad actions are mixed, implicit Q-learning has higher returns than "
    "behaviour cloning, and than the cloning of the best tenth of the episodes.",
    environment="Pendulum-v1",
    arms={
        "behaviour cloning": Arm("bc", SMALL, data),
        "of the best tenth": Arm("bc", SMALL | {"best": 0.1}, data),
        "IQL": Arm("iql", SMALL, data),
    },
    treatment="IQL",
    baselines=("behaviour cloning", "of the best tenth"),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, FRESH[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "a GPU and hours", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, in place of D4RL.",
)
