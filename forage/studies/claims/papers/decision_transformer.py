"""Actions from the return that is asked for: Chen and others (2021)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import balance, played


def mixed() -> dict[str, Any]:
    return {"data": played("CartPole-v1", balance, (0.2,) * 40 + (0.5,) * 40 + (1.0,) * 40)}


OPTIONS = {"context": 10, "width": 32, "layers": 2, "warmup": 100, "learning_rate": 1e-3, "dropout": 0.0}

CLAIM = Claim(
    title="Decision Transformer: Reinforcement Learning via Sequence Modeling",
    authors="Chen, Lu, Rajeswaran, Lee, Grover, Laskin, Abbeel, Srinivas, Mordatch",
    year=2021,
    arxiv="2106.01345",
    statement="From data of mixed quality, asking a transformer for the best return in it beats imitating all of it.",
    environment="CartPole-v1",
    arms={
        "imitation": Arm("bc", {"hidden_sizes": (64, 64), "batch_size": 640, "learning_rate": 1e-3}, mixed),
        "asked for the worst": Arm("decision-transformer", OPTIONS | {"target_return": 20.0}, mixed),
        "asked for the best": Arm("decision-transformer", OPTIONS, mixed),
    },
    treatment="asked for the best",
    baselines=("imitation", "asked for the worst"),
    measure=evaluated,
    measured="return",
    laptop=Scale(2000, tuple(range(1000, 1005))),
    smoke=Scale(40, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 100_000, 3, "a GPU and a day", lacks="the data sets of D4RL"),
    note="A plain controller of CartPole with a fifth, a half and all of its pushes at random in place of D4RL's "
    "medium data; small networks. The second baseline is the same network asked for little.",
)
