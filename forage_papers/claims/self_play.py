"""Selves of the past are better opponents to learn from than easy ones: Bansal and others (2018)."""

from __future__ import annotations

from forage.behaviours.self_play import SelfPlay
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

OPTIONS = {
    "num_envs": 64,
    "rollout_length": 16,
    "epochs": 4,
    "minibatches": 8,
    "learning_rate": 3e-3,
    "entropy_coefficient": 0.1,
    "discount": 1.0,
    "activation": "relu",
}


def parts(opponents: str) -> dict[str, object]:
    return {"behaviour": SelfPlay(opponents=opponents), "rewards": "environment", "opponent": "perfect"}


CLAIM = Claim(
    title="Emergent Complexity via Multi-Agent Competition",
    authors="Bansal, Pachocki, Sidor, Sutskever, Mordatch",
    year=2018,
    arxiv="1710.03748",
    statement="An agent that learns against selves of its past does better against a perfect player than one that "
    "learns against random moves.",
    environment="boards:TicTacToe",
    arms={
        "random moves": Arm("ppo", OPTIONS, lambda: parts("random")),
        "past selves": Arm("ppo", OPTIONS, lambda: parts("past")),
    },
    treatment="past selves",
    baselines=("random moves",),
    measure=evaluated,
    measured="return against a perfect player",
    laptop=Scale(250_000, tuple(range(1000, 1005))),
    smoke=Scale(1024, (1000, 1001)),
    paper=Paper("boards:TicTacToe", 250_000, 5, "minutes", lacks="the paper's fights of simulated bodies"),
    note="A board game in place of fights of simulated bodies; the best possible return is 0, a draw in every game.",
)
