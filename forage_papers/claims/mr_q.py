"""One setting for numbered and continuous actions: Fujimoto and others (2025)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from forage.evaluation.comparison import welch_difference
from forage.memory.lap import LAP
from forage.memory.uniform import UniformReplay
from forage.runs.run import Run
from forage.studies.claims.claim import SEEDS, Arm, Claim, Effect, Paper, Rule, Scale, area, judged

ENDS = {"Pendulum-v1": (-1200.0, -150.0), "CartPole-v1": (20.0, 500.0)}
ALIKE: dict[str, Any] = {"batch_size": 64, "learning_rate": 1e-3, "learning_starts": 500}
SMALL = ALIKE | {"hidden_sizes": (64, 64)}
ONE = ALIKE | {"hidden_size": 64, "latent_size": 64, "action_size": 32, "encoder_learning_rate": 1e-3}
DQN = SMALL | {
    "double": True,
    "target_update_interval": 250,
    "rollout_length": 1,
    "num_envs": 1,
    "updates_per_rollout": 1,
}


def lap() -> dict[str, Any]:
    return {"memory": LAP(10_000)}


def uniform() -> dict[str, Any]:
    return {"memory": UniformReplay(10_000)}


def share(run: Run) -> list[float]:
    """Return each seed's mean return over training, on a scale from 0, a random policy's, to 1, a good one's."""
    low, high = ENDS[run.config["spec"]["name"]]
    return [(value - low) / (high - low) for value in area(run)]


def in_each_task(values: Mapping[str, np.ndarray], rule: Rule) -> list[Effect]:
    """Compare MR.Q with the agent made for each kind of actions."""
    found = []
    for baseline, treatment in (("TD3, Pendulum", "MR.Q, Pendulum"), ("DQN, CartPole", "MR.Q, CartPole")):
        value, low, high = welch_difference(values[treatment], values[baseline], rule.confidence)
        found.append(Effect(baseline, value, low, high, judged(low, high, rule.margin)))
    return found


CLAIM = Claim(
    title="Towards General-Purpose Model-Free Reinforcement Learning",
    authors="Fujimoto, D'Oro, Zhang, Tian, Rabbat",
    year=2025,
    arxiv="2501.16142",
    statement="With one setting, MR.Q competes with TD3 where actions are continuous and with DQN where they are "
    "choices.",
    environment="Pendulum-v1",
    arms={
        "TD3, Pendulum": Arm("td3", SMALL, uniform),
        "MR.Q, Pendulum": Arm("mr-q", ONE, lap),
        "DQN, CartPole": Arm("dqn", DQN, uniform, "CartPole-v1"),
        "MR.Q, CartPole": Arm("mr-q", ONE, lap, "CartPole-v1"),
    },
    treatment="MR.Q, Pendulum",
    baselines=("TD3, Pendulum",),
    measure=share,
    measured="mean return over training, from 0 (random) to 1 (good)",
    laptop=Scale(6000, SEEDS[:5]),
    smoke=Scale(700, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "a GPU and days", lacks="two tasks at once"),
    rule=Rule(margin=-0.1),
    note="Two small tasks in place of 118, and networks of 64 units; the encoders' step size is that of the other "
    "networks. 0 is -1200 in Pendulum and 20 in CartPole, 1 is -150 and 500.",
    judge=in_each_task,
    judged_by="The effect is how far MR.Q is above the agent that is made for the task's kind of actions. The claim "
    "holds where the whole 95 % interval lies above -0.1 in both tasks, and fails where it lies below in one.",
)
