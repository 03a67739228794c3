"""Measures and environments of claims about value learning."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from forage.config.saved import load_policy
from forage.environments.tabular.makers import seeded_garnet
from forage.environments.tabular.mdp import Tabular
from forage.environments.tabular.values import optimal
from forage.environments.wrappers.randomness.reward import RewardNoise
from forage.runs.run import Run

DISCOUNT = 0.9


def garnet() -> Tabular:
    """Return a random MDP of 20 states, 8 actions and episodes of 50 steps."""
    return seeded_garnet(seed=7, states=20, actions=8, max_steps=50)


def noisy_garnet() -> RewardNoise:
    """Return the random MDP with noise in its rewards."""
    return RewardNoise(garnet(), 1.0)


def over_estimation(run: Run) -> list[float]:
    """Return each seed's mean over all states of the value of the best action less its true value."""
    truth = optimal(garnet(), DISCOUNT).values
    states = jnp.eye(truth.shape[0])  # as an agent sees them
    found = []
    for seed in run.config["seeds"]:
        policy = load_policy(run.directory, seed)
        q = jax.vmap(policy.state.network)(states)
        found.append(float(np.mean(q.max(-1) - truth)))
    return found
