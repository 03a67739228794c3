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
    laptop=Scale(20_000, FRESH[5:10]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 1_000_000, 7, "a GPU and hours", lacks="the data sets of D4RL"),
    note="Ten episodes of a rule that swings the pendulum up as demonstrations, and as data these and 40 of random "
    "actions, in place of D4RL. Tried before: two demonstrations among 18 random episodes, on seeds 1000 to 1004, "
    "where nobody did better than cloning of all (-1225; ReCOIL -1564, cloning of the two -1529), and 5,000 updates in "
    "place of 20,000, on seeds 4000 to 4004 (ReCOIL -1281, cloning of the ten -148): its values have to rise to 200 "
    "before what sets actions apart, 4 where one of them goes on for ever, stands out from their errors.",
)
