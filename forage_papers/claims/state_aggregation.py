"""Episodic control with fewer entries, as near states share one: Pinto (2020)."""

from __future__ import annotations

from typing import Any

from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Rule, Scale, evaluated, late

OPTIONS: dict[str, Any] = {"discount": 0.99, "capacity": 2000, "rollout_length": 8}


def seldom_random() -> dict[str, Any]:
    return {"behaviour": EpsilonGreedy(end=0.02, fraction=0.3)}


CLAIM = Claim(
    title="Model-Free Episodic Control with State Aggregation",
    authors="Pinto",
    year=2020,
    arxiv="2008.09685",
    statement="Episodic control in which near states share an entry loses no more than 20 steps of return, and has "
    "fewer entries.",
    environment="CartPole-v1",
    arms={
        "an entry for each state": Arm("episodic-control", OPTIONS, seldom_random),
        "near states share one": Arm("episodic-control", OPTIONS | {"radius": 0.1}, seldom_random),
    },
    treatment="near states share one",
    baselines=("an entry for each state",),
    measure=evaluated,
    measured="return",
    also=(Also(late("entries"), "entries in the table at the end", higher=False),),
    laptop=Scale(15_000, FRESH[:5]),
    smoke=Scale(500, (1000, 1001)),
    paper=Paper("gymnasium:ALE/MsPacman-v5", 10_000_000, 5, "days", lacks="nearest neighbours among a million entries"),
    rule=Rule(margin=-20.0),
    note="CartPole's four numbers as they are, in place of projected pictures of Atari games, and tables of 2,000 "
    "entries. That there are fewer entries is shown below and decides nothing.",
)
