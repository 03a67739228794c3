"""Quantiles of the return learn better than its mean: Dabney, Rowland, Bellemare and Munos (2017)."""

from __future__ import annotations

from typing import Any

from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.memory.uniform import UniformReplay
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

ALIKE: dict[str, Any] = {"n_step": 1, "dueling": False, "double": False, "hidden_sizes": (64, 64), "batch_size": 128}
ALIKE |= {"learning_rate": 5e-4, "learning_starts": 1000, "rollout_length": 4, "updates_per_rollout": 1}
ALIKE |= {"target_update_interval": 500}


def parts() -> dict[str, Any]:
    return {"memory": UniformReplay(50_000), "behaviour": EpsilonGreedy(start=1.0, end=0.05)}


CLAIM = Claim(
    title="Distributional Reinforcement Learning with Quantile Regression",
    authors="Dabney, Rowland, Bellemare, Munos",
    year=2017,
    arxiv="1710.10044",
    statement="DQN that learns quantiles of returns has higher returns in training than DQN.",
    environment="CartPole-v1",
    arms={"DQN": Arm("dqn", ALIKE, parts), "QR-DQN": Arm("qr-dqn", ALIKE, parts)},
    treatment="QR-DQN",
    baselines=("DQN",),
    measure=area,
    measured="mean return in training",
    laptop=Scale(50_000, SEEDS[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Breakout-v5", 50_000_000, 3, "GPUs and days"),
    note="CartPole in place of Atari.",
)
