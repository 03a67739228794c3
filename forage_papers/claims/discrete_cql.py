"""Values that are held down where there are no data, for choices: Kumar, Zhou, Tucker and Levine (2020)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import balance, played

SMALL: dict[str, Any] = {"n_step": 1, "dueling": False, "learning_rate": 1e-3, "final_learning_rate": 1.0}


def data() -> dict[str, Any]:
    return {"data": played("CartPole-v1", balance, (0.1,) * 5)}


CLAIM = Claim(
    title="Conservative Q-Learning for Offline Reinforcement Learning",
    authors="Kumar, Zhou, Tucker, Levine",
    year=2020,
    arxiv="2006.04779",
    statement="From the data of one way to play, conservative Q-learning of discrete actions has higher returns than "
    "DQN.",
    environment="CartPole-v1",
    arms={
        "DQN": Arm("dqn", SMALL, data),
        "CQL": Arm("discrete-cql", SMALL, data),
        "behaviour cloning": Arm("bc", {"hidden_sizes": (64, 64), "learning_rate": 1e-3}, data),
    },
    treatment="CQL",
    baselines=("DQN",),
    measure=evaluated,
    measured="return",
    laptop=Scale(10_000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Breakout-v5", 10_000_000, 3, "a GPU and days", lacks="the replay of a DQN on Atari"),
    note="Five episodes of a rule that balances the pole, a tenth of whose actions are random, in place of Atari. "
    "Behaviour cloning stands beside it.",
)
