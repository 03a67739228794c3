"""Imitation beside the critics makes an online agent learn from data: Fujimoto and Gu (2021)."""

from __future__ import annotations

from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.5,) * 20), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="A Minimalist Approach to Offline Reinforcement Learning",
    authors="Fujimoto, Gu",
    year=2021,
    arxiv="2106.06860",
    statement="From data alone, TD3 with a behaviour-cloning term in the policy's loss has higher returns than TD3 "
    "without it and than behaviour cloning.",
    environment="Pendulum-v1",
    arms={
        "behaviour cloning": Arm("bc", SMALL, data),
        "TD3": Arm("td3", SMALL, data),
        "TD3+BC": Arm("td3-bc", SMALL, data),
    },
    treatment="TD3+BC",
    baselines=("behaviour cloning", "TD3"),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 5, "a GPU and hours", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that swings the pendulum up, half of whose actions are random, in place of D4RL; "
    "5,000 updates.",
)
