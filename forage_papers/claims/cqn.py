"""Zooming into actions beats cutting them once as finely: Seo, Uruc and James (2024)."""

from __future__ import annotations

from typing import Any

from forage.memory.uniform import UniformReplay
from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 64, "learning_rate": 1e-3, "learning_starts": 500}
SMALL |= {"low": -100.0, "high": 0.0, "exploration_noise": 0.2}


def parts() -> dict[str, Any]:
    return {"memory": UniformReplay(10_000), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Continuous Control with Coarse-to-fine Reinforcement Learning",
    authors="Seo, Uruc, James",
    year=2024,
    arxiv="2407.07787",
    statement="Three levels of five intervals have higher returns in training than one level of 125, whose intervals "
    "are as fine.",
    environment="Pendulum-v1",
    arms={
        "one level": Arm("cqn", SMALL | {"levels": 1, "intervals": 125}, parts),
        "three levels": Arm("cqn", SMALL, parts),
    },
    treatment="three levels",
    baselines=("one level",),
    measure=area,
    measured="mean return in training",
    laptop=Scale(3000, SEEDS[:5]),
    smoke=Scale(600, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 5, "a GPU and hours", lacks="RLBench"),
    note="The swinging pendulum in place of robots' arms, seen by numbers.",
)
