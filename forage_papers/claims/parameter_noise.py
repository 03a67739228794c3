"""Noise on the weights explores consistently: Plappert and others (2017)."""

from __future__ import annotations

import numpy as np

from forage.environments.tabular.mdp import Tabular
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

OPTIONS = {"num_envs": 4, "hidden_sizes": (16, 16)}


def chain(size: int = 20) -> Tabular:
    """Right at every step leads to 1 a step at the far end, left to 0.001; it begins in the second of `size` states."""
    transition, reward = np.zeros((size, 2, size)), np.zeros((size, 2, size))
    for state in range(size):
        transition[state, 0, max(state - 1, 0)] = transition[state, 1, min(state + 1, size - 1)] = 1.0
    reward[:, :, 0], reward[:, :, -1] = 0.001, 1.0
    return Tabular(transition, reward, np.eye(size)[1], np.zeros(size, bool), size + 9)


CLAIM = Claim(
    title="Parameter Space Noise for Exploration",
    authors="Plappert, Houthooft, Dhariwal, Sidor, Chen, Chen, Asfour, Abbeel, Andrychowicz",
    year=2017,
    arxiv="1706.01905",
    statement="Noise on the weights of its network takes an agent to the end of a chain that epsilon-greedy does not.",
    environment=chain,
    arms={
        "epsilon-greedy": Arm("dqn", OPTIONS),
        "parameter noise": Arm("dqn", OPTIONS, lambda: {"behaviour": "parameter-noise"}),
    },
    treatment="parameter noise",
    baselines=("epsilon-greedy",),
    measure=area,
    measured="mean return during training",
    laptop=Scale(30_000),
    smoke=Scale(1500, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 5, "hours on many cores"),
    note="The paper's chain, of 20 states, seen one-hot and not as a thermometer, by a network without normalisation.",
)
