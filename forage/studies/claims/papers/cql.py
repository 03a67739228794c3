"""Values that are held down where there are no data keep a policy near them: Kumar, Zhou, Tucker and Levine (2020)."""

from __future__ import annotations

from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.0,) * 10), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Conservative Q-Learning for Offline Reinforcement Learning",
    authors="Kumar, Zhou, Tucker, Levine",
    year=2020,
    arxiv="2006.04779",
    statement="From narrow data, conservative Q-learning has higher returns than SAC, whose critics are free to "
    "overestimate actions that the data lack.",
    environment="Pendulum-v1",
    arms={
        "SAC": Arm("sac", SMALL, data),
        "CQL": Arm("cql", SMALL | {"samples": 4, "policy_learning_rate": 3e-4}, data),
        "behaviour cloning": Arm("bc", SMALL, data),
    },
    treatment="CQL",
    baselines=("SAC",),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 4, "a GPU and a day", lacks="the data sets of D4RL"),
    note="10 episodes of a rule that swings the pendulum up, always the same way, in place of D4RL; 5,000 updates; 4 "
    "sampled actions in place of 10. Behaviour cloning stands beside it.",
)
