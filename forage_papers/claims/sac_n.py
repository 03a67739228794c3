"""The least value of many critics is caution enough for data: An, Moon, Kim and Song (2021)."""

from __future__ import annotations

from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}


def data() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.0,) * 10), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Uncertainty-Based Offline Reinforcement Learning with Diversified Q-Ensemble",
    authors="An, Moon, Kim, Song",
    year=2021,
    arxiv="2110.01548",
    statement="From data alone, SAC whose target is the least value of many critics has higher returns than with two.",
    environment="Pendulum-v1",
    arms={
        "2 critics": Arm("sac-n", SMALL | {"critics": 2}, data),
        "20 critics": Arm("sac-n", SMALL | {"critics": 20}, data),
    },
    treatment="20 critics",
    baselines=("2 critics",),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 3_000_000, 4, "a GPU and days", lacks="the data sets of D4RL"),
    note="10 episodes of a rule that swings the pendulum up, always the same way, in place of D4RL; the paper has up "
    "to 500 critics.",
)
