"""Values of sequences of actions learn faster than values of single ones: Seo and Abbeel (2024)."""

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
    title="Coarse-to-fine Q-Network with Action Sequence for Data-Efficient Robot Learning",
    authors="Seo, Abbeel",
    year=2024,
    arxiv="2411.12155",
    statement="Coarse-to-fine values of two actions in a row have higher returns in training than those of one.",
    environment="Pendulum-v1",
    arms={
        "one action": Arm("cqn", SMALL, parts),
        "two actions": Arm("cqn-as", SMALL | {"sequence": 2}, parts),
    },
    treatment="two actions",
    baselines=("one action",),
    measure=area,
    measured="mean return in training",
    laptop=Scale(3000, SEEDS[:5]),
    smoke=Scale(600, (1000, 1001)),
    paper=Paper("gymnasium:Humanoid-v5", 5_000_000, 5, "a GPU and days", lacks="HumanoidBench, BiGym and RLBench"),
    note="The swinging pendulum in place of robots, and two actions in place of four and more, as it turns quickly.",
)
