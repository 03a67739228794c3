"""Small choices make imitation beside the critics better: Tarasov and others (2023)."""

from __future__ import annotations

from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.5,) * 20), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Revisiting the Minimalist Approach to Offline Reinforcement Learning",
    authors="Tarasov, Kurenkov, Nikulin, Kolesnikov",
    year=2023,
    arxiv="2305.09836",
    statement="ReBRAC, with imitation in the critics' targets too and normalised critics, has higher returns from data "
    "alone than TD3+BC.",
    environment="Pendulum-v1",
    arms={
        "TD3+BC": Arm("td3-bc", SMALL, data),
        "ReBRAC": Arm("rebrac", SMALL | {"actor_cloning": 0.1, "critic_cloning": 0.1}, data),
    },
    treatment="ReBRAC",
    baselines=("TD3+BC",),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "a GPU and hours", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, in place of D4RL; both "
    "agents have two hidden layers. The paper tunes both weights of imitation for each data set; here both are 0.1, "
    "one of its choices.",
)
