"""Critics that are kept different do with fewer: An, Moon, Kim and Song (2021)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, steer

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "critics": 5}
SMALL |= {"discount": 0.95, "polyak": 0.02}


def data() -> dict[str, Any]:
    return {"data": played("maze:Open", steer, (0.5,) * 20)}


CLAIM = Claim(
    title="Uncertainty-Based Offline Reinforcement Learning with Diversified Q-Ensemble",
    authors="An, Moon, Kim, Song",
    year=2021,
    arxiv="2110.01548",
    statement="From data alone, five critics whose gradients are kept different lead to higher returns than five that "
    "are not.",
    environment="maze:Open",
    arms={
        "SAC-N, 5 critics": Arm("sac-n", SMALL, data),
        "EDAC, 5 critics": Arm("edac", SMALL | {"diversity": 5.0}, data),
    },
    treatment="EDAC, 5 critics",
    baselines=("SAC-N, 5 critics",),
    measure=evaluated,
    measured="return",
    laptop=Scale(2000, FRESH[:5]),
    smoke=Scale(100, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 3_000_000, 4, "a GPU and days", lacks="the data sets of D4RL"),
    note="20 episodes of a rule that pushes a ball straight to its goal, half of whose pushes are random, in place of "
    "D4RL; 2,000 updates at a discount of 0.95, at which no value is above 20; 5 is one of the weights of diversity "
    "that the paper tries.",
)
