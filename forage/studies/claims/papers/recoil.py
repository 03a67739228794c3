"""Imitation from few demonstrations beside much data of another kind: Sikchi and others (2023)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def shown() -> str:
    return played("Pendulum-v1", swing_up, (0.0,) * 10)


def mixed() -> str:
    return played("Pendulum-v1", swing_up, (0.0,) * 10 + (1.0,) * 40)


CLAIM = Claim(
    title="Dual RL: Unification and New Methods for Reinforcement and Imitation Learning",
    authors="Sikchi, Zheng, Zhang, Niekum",
    year=2023,
    arxiv="2302.08560",
    statement="Beside data that are mostly random, ReCOIL imitates a few demonstrations better than cloning of all "
    "data, and than cloning of the demonstrations alone.",
    environment="Pendulum-v1",
    arms={
        "cloning of all": Arm("bc", SMALL, lambda: {"data": mixed()}),
        "cloning of the demonstrations": Arm("bc", SMALL, lambda: {"data": shown()}),
        "ReCOIL": Arm("recoil", SMALL, lambda: {"data": mixed(), "agent_options": {"demonstrations": shown()}}),
    },
    treatment="ReCOIL",
    baselines=("cloning of all", "cloning of the demonstrations"),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, FRESH[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 1_000_000, 7, "a GPU and hours", lacks="the data sets of D4RL"),
    note="Ten episodes of a rule that swings the pendulum up as demonstrations, and as data these and 40 of random "
    "actions, in place of D4RL. With two demonstrations and 18 random episodes, on seeds 1000 to 1004, neither ReCOIL "
    "(-1564) nor cloning of the two (-1529) did as well as cloning of all (-1225): two are too few to show how.",
)
