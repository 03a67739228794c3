"""Categorical agents learn better from the average of an ensemble: Lindenberg, Nordqvist and Lindahl (2020)."""

from __future__ import annotations

from typing import Any

from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.memory.uniform import UniformReplay
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

ALIKE: dict[str, Any] = {"n_step": 1, "dueling": False, "double": False, "hidden_sizes": (64, 64), "batch_size": 64}
ALIKE |= {"learning_rate": 5e-4, "final_learning_rate": 1.0, "learning_starts": 1000, "rollout_length": 4}
ALIKE |= {"num_envs": 1, "updates_per_rollout": 1, "target_update_interval": 500}
ALIKE |= {"atoms": 101, "low": -100.0, "high": 100.0}


def parts() -> dict[str, Any]:
    return {"memory": UniformReplay(50_000), "behaviour": EpsilonGreedy(start=1.0, end=0.05)}


CLAIM = Claim(
    title="Distributional Reinforcement Learning with Ensembles",
    authors="Lindenberg, Nordqvist, Lindahl",
    year=2020,
    arxiv="2003.10903",
    statement="Five categorical networks whose target is their average have higher returns in training, at the same "
    "number of steps, than one.",
    environment="CartPole-v1",
    arms={"C51": Arm("c51", ALIKE, parts), "ensemble": Arm("ensemble-c51", ALIKE, parts)},
    treatment="ensemble",
    baselines=("C51",),
    measure=area,
    measured="mean return in training",
    laptop=Scale(30_000, SEEDS[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Breakout-v5", 40_000_000, 5, "GPUs and days"),
    note="CartPole in place of Atari.",
)
