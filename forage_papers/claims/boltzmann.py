"""Exploring by value costs less than exploring evenly: Sutton and Barto (1998)."""

from __future__ import annotations

from typing import Any

from forage.behaviours.boltzmann import Boltzmann
from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.environments.tabular.makers import grid_world
from forage.environments.tabular.mdp import Tabular
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

OPTIONS = {"num_envs": 4, "hidden_sizes": (32, 32)}


def cliff() -> Tabular:
    """Return the way to the goal leads along a cliff; falling costs what the goal pays."""
    return grid_world((".....", ".....", "SHHHG"), hole_reward=-1.0, max_steps=50)


def by_value() -> dict[str, Any]:
    return {"behaviour": Boltzmann(initial_temperature=0.5, final_temperature=0.02, fraction=0.5)}


CLAIM = Claim(
    title="Reinforcement Learning: An Introduction",
    authors="Sutton, Barto",
    year=1998,
    arxiv="MIT Press, section 2.3",
    statement="Drawing actions by what they seem to be worth costs less while learning than drawing them evenly.",
    environment=cliff,
    arms={
        "epsilon-greedy": Arm("dqn", OPTIONS, lambda: {"behaviour": EpsilonGreedy(fraction=0.5)}),
        "Boltzmann": Arm("dqn", OPTIONS, by_value),
    },
    treatment="Boltzmann",
    baselines=("epsilon-greedy",),
    measure=area,
    measured="mean return during training",
    laptop=Scale(20_000),
    smoke=Scale(1500, (1000, 1001)),
    paper=Paper("tabular:GridWorld-3x4", 20_000, 10, "minutes on two cores"),
    note="A small cliff and DQN; the book says so of bandits, and that it is unclear which of the two is better.",
)
