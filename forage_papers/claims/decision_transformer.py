"""Actions from the return that is asked for: Chen and others (2021)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

OPTIONS: dict[str, Any] = {"context": 5, "width": 32, "layers": 1, "warmup": 100, "dropout": 0.0}
OPTIONS |= {"learning_rate": 3e-3, "batch_size": 32}


def mixed() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.2,) * 20 + (0.6,) * 20 + (1.0,) * 20)}


CLAIM = Claim(
    title="Decision Transformer: Reinforcement Learning via Sequence Modeling",
    authors="Chen, Lu, Rajeswaran, Lee, Grover, Laskin, Abbeel, Srinivas, Mordatch",
    year=2021,
    arxiv="2106.01345",
    statement="From data of mixed quality, asking a transformer for the best return in it beats imitating all of it.",
    environment="Pendulum-v1",
    arms={
        "imitation": Arm("bc", {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}, mixed),
        "asked for the best": Arm("decision-transformer", OPTIONS, mixed),
    },
    treatment="asked for the best",
    baselines=("imitation",),
    measure=evaluated,
    measured="return",
    laptop=Scale(3000, FRESH[:5]),
    smoke=Scale(40, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 100_000, 3, "a GPU and a day", lacks="the data sets of D4RL"),
    note="60 episodes of a rule that swings the pendulum up, with a fifth, three fifths and all of its actions at "
    "random, in place of D4RL; one small block that reads five steps. An earlier form, in CartPole, was begun twice on "
    "other seeds and not ended; this one was tried with two others (7100 and 7101).",
)
