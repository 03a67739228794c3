"""Measures and environments of claims about exploration."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from forage.config.resolve import from_config
from forage.core.spaces import from_json
from forage.core.types import ForageError
from forage.environments.tabular.mdp import Tabular, TabularState
from forage.runs.run import Run


def continuity_cost(run: Run) -> list[float]:
    """Return 100 E[((a_{t+1} - a_t) / (high - low))^2] of each seed, over the rollout after its last one."""
    if not run.checkpoints:
        raise ForageError(f"{run.directory} has no checkpoint to go on from.")
    runner = from_config(run.config).runner(run.config["devices"])
    runner.load(run.checkpoints[-1])
    rollout = runner.next_rollout()
    space = from_json(run.config["spec"]["action_space"])
    low, high = space.low, space.high  # pyrefly: ignore[missing-attribute]
    action = np.clip(rollout.action, low, high) / (high - low)  # [seed, time, env, dimension]
    change, ended = np.sum(np.diff(action, axis=1) ** 2, axis=-1), np.asarray(rollout.ended)
    return [100 * float(np.mean(c[~e])) for c, e in zip(change, ended[:, :-1], strict=True)]


class NChain(Tabular):
    """A row of states, entered at the second; 0.001 at the left end, 1 at the right; episodes have 9 steps more.

    The observation of state s is 1 for each of the states up to it (Osband, Blundell, Pritzel, Van Roy, 2016, arXiv
    1602.04621, section 5.1).
    """

    def _observe(self, state: TabularState) -> Float[Array, " state"]:
        return (jnp.arange(self.num_states) <= state.index).astype(jnp.float32)


def n_chain(size: int = 25) -> NChain:
    """Return the chain of this many states."""
    states = np.arange(size)
    transition, reward = np.zeros((size, 2, size)), np.zeros((size, 2))
    transition[states, 0, np.maximum(states - 1, 0)] = 1
    transition[states, 1, np.minimum(states + 1, size - 1)] = 1
    reward[0], reward[-1] = 0.001, 1.0
    return NChain(transition, reward, np.eye(size)[1], np.zeros(size, bool), size + 9)


def far_chain(size: int = 20) -> Tabular:
    """Return a row of `size` states, entered at the second, with 0.001 a step at the left end and 1 at the right."""
    transition, reward = np.zeros((size, 2, size)), np.zeros((size, 2, size))
    for state in range(size):
        transition[state, 0, max(state - 1, 0)] = transition[state, 1, min(state + 1, size - 1)] = 1.0
    reward[:, :, 0], reward[:, :, -1] = 0.001, 1.0
    return Tabular(transition, reward, np.eye(size)[1], np.zeros(size, bool), size + 9)
