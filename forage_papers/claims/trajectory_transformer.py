"""Planning in a model of whole episodes: Janner, Li and Levine (2021)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

OPTIONS: dict[str, Any] = {"context": 5, "past": 2, "horizon": 3, "beams": 16, "bins": 30, "warmup": 100}
OPTIONS |= {"width": 32, "layers": 1, "heads": 2, "dropout": 0.0, "learning_rate": 3e-3, "batch_size": 32}


def mixed() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.2,) * 20 + (0.6,) * 20 + (1.0,) * 20), "evaluation_episodes": 5}


CLAIM = Claim(
    title="Offline Reinforcement Learning as One Big Sequence Modeling Problem",
    authors="Janner, Li, Levine",
    year=2021,
    arxiv="2106.02039",
    statement="From data of mixed quality, beam search for high returns in a transformer's predictions beats imitating "
    "all of the data.",
    environment="Pendulum-v1",
    arms={
        "imitation": Arm("bc", {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}, mixed),
        "planning": Arm("trajectory-transformer", OPTIONS, mixed),
    },
    treatment="planning",
    baselines=("imitation",),
    measure=evaluated,
    measured="return",
    laptop=Scale(2500, SEEDS[:5]),
    smoke=Scale(40, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 1_000_000, 15, "a GPU and days", lacks="the data sets of D4RL"),
    note="60 episodes of a rule that swings the pendulum up, with a fifth, three fifths and all of its actions at "
    "random, in place of D4RL; one small block, thirty bins, and plans of three steps.",
)
