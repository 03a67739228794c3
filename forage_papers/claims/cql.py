"""Values that are held down where there are no data keep a policy near them: Kumar, Zhou, Tucker and Levine (2020)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, steer

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}
NEAR: dict[str, Any] = SMALL | {"discount": 0.95, "polyak": 0.02}


def data() -> dict[str, Any]:
    return {"data": played("maze:Open", steer, (0.1,) * 20)}


CLAIM = Claim(
    title="Conservative Q-Learning for Offline Reinforcement Learning",
    authors="Kumar, Zhou, Tucker, Levine",
    year=2020,
    arxiv="2006.04779",
    statement="From narrow data, conservative Q-learning has higher returns than SAC, whose critics are free to "
    "overestimate actions that the data lack.",
    environment="maze:Open",
    arms={
        "SAC": Arm("sac", NEAR, data),
        "CQL": Arm("cql", NEAR | {"samples": 4, "policy_learning_rate": 1e-3}, data),
        "behaviour cloning": Arm("bc", SMALL, data),
    },
    treatment="CQL",
    baselines=("SAC",),
    measure=evaluated,
    measured="return",
    laptop=Scale(2000, FRESH[:5]),
    smoke=Scale(100, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 4, "a GPU and a day", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that pushes a ball straight to its goal, a tenth of whose pushes are random, in place "
    "of D4RL; 2,000 updates at a discount of 0.95, at which no value is above 20; 4 sampled actions in place of 10. "
    "Behaviour cloning stands beside it.",
)
