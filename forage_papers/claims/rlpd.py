"""Half of each batch from data makes SAC learn from fewer steps: Ball, Smith, Kostrikov and Levine (2023)."""

from __future__ import annotations

from typing import Any

from forage.memory.mixed import Mixed
from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "learning_starts": 400}
SMALL |= {"updates_per_rollout": 4, "policy_delay": 4, "critics": 5, "target_entropy": -1.0}


def mixed() -> dict[str, Any]:
    file = played("Pendulum-v1", swing_up, (0.0,) * 2 + (1.0,) * 18)
    return {"memory": Mixed(file, capacity=10_000), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Efficient Online Reinforcement Learning with Offline Data",
    authors="Ball, Smith, Kostrikov, Levine",
    year=2023,
    arxiv="2302.02948",
    statement="With half of each batch from earlier data, RLPD has higher returns over its first steps than without "
    "data, at as many updates.",
    environment="Pendulum-v1",
    arms={
        "without data": Arm("rlpd", SMALL, lambda: {"rewards": Scaled(0.1)}),
        "RLPD": Arm("rlpd", SMALL, mixed),
    },
    treatment="RLPD",
    baselines=("without data",),
    measure=area,
    measured="mean return in training",
    laptop=Scale(3000, SEEDS[:5]),
    smoke=Scale(800, (1000, 1001)),
    paper=Paper("gymnasium:Walker2d-v5", 300_000, 10, "a GPU and a day", lacks="the data sets of D4RL"),
    note="Two episodes of a rule that swings the pendulum up and 18 of random actions, in place of D4RL; five critics "
    "and four updates a step in place of ten and twenty.",
)
