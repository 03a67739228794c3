"""A mixture of policies that goes everywhere: Hazan, Kakade, Singh, Van Soest (2019)."""

from __future__ import annotations

from forage.environments.tabular.makers import river_swim
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, late
from forage_papers.claims.ucbvi import EPISODE


def long_river():
    """Twelve states against the current, 20 steps an episode."""
    return river_swim(12, max_steps=20)


UNTRAINED = EPISODE | {"learning_rate": 0.0, "num_envs": 1, "minibatches": 1}
"""A policy that stays as it was made: nearly uniform."""


CLAIM = Claim(
    title="Provably Efficient Maximum Entropy Exploration",
    authors="Hazan, Kakade, Singh, Van Soest",
    year=2019,
    arxiv="1812.02690",
    statement="Policies mixed to maximise the entropy of what they visit spread further than chance does.",
    environment=long_river,
    arms={
        "chance": Arm(
            "ppo",
            {"learning_rate": 0.0, "num_envs": 1, "rollout_length": 20, "minibatches": 1},
            lambda: {"visits": True},
        ),
        "maximum entropy": Arm("maxent", EPISODE, lambda: {"visits": True}),
    },
    treatment="maximum entropy",
    baselines=("chance",),
    measure=late("visitation_entropy", 0.01),
    measured="entropy of all visits, in nats",
    laptop=Scale(20_000),
    smoke=Scale(400, (1000, 1001)),
    paper=Paper("MountainCar, Pendulum, Ant, Humanoid", 1_000_000, 10, "MuJoCo", lacks="its binned densities"),
    note="A river of 12 states in place of discretised control; ln 12 = 2.48 is the most there can be.",
)
