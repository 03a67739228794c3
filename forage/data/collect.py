"""Policies as functions of observations, and episodes of a native environment that such a policy plays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core import prng
from forage.core.compiling import QUICK, known_options
from forage.core.ports import Environment
from forage.core.types import ForageError, Step
from forage.data.logged import LoggedEpisodes

Probabilities = Callable[[PyTree[Any]], Any]
"""A policy: from observations (leaves `[batch, ...]`) to the probabilities of the actions, `[batch, action]`."""


def tabular_policy(table: Float[np.ndarray, "state action"]) -> Probabilities:
    """Return the policy with the probabilities of a table; observations are one-hot, as those of `Tabular`."""
    table = np.asarray(table, np.float64)
    # Rounding of single precision away from 1 would be multiplied over the steps of an episode.
    table = table / table.sum(-1, keepdims=True)
    return lambda observation: observation @ table


def soften_policy(policy: Probabilities, epsilon: float) -> Probabilities:
    """(1 - epsilon) pi(a|o) + epsilon / A: the policy, but with probability `epsilon` any action.

    Such a behaviour covers every target policy, and its probabilities are known.
    """
    if not 0 <= epsilon <= 1:
        raise ForageError(f"epsilon is a probability, from 0 to 1, and was {epsilon}.")

    def soft(observation: PyTree[Any]) -> Any:
        probabilities = policy(observation)
        return (1 - epsilon) * probabilities + epsilon / probabilities.shape[-1]

    return soft


def log_episodes(
    environment: Environment, policy: Probabilities, episodes: int, seed: int = 0, max_steps: int | None = None
) -> LoggedEpisodes:
    """Play whole episodes of an environment in JAX, with the probabilities of the actions.

    `policy` is called inside a compiled program, with observations `[episode, ...]`, and once more on the host with
    all that was seen. An episode that has not ended after `max_steps` (the environment's own limit, where that is not
    given) is truncated.
    """
    limit = environment.horizon if max_steps is None else max_steps
    if limit is None:
        raise ForageError(f"{type(environment).__name__} has no time limit, so log_episodes needs max_steps.")
    if not isinstance(environment.action_space, gymnasium.spaces.Discrete) or environment.num_agents > 1:
        raise ForageError(f"log_episodes is for one agent with discrete actions, not {environment.action_space}.")
    if episodes < 1 or limit < 1:
        raise ForageError(f"At least 1 episode of at least 1 step can be logged, not {episodes} of {limit}.")
    limit = int(limit)

    def begin(key: Key[Array, ""]) -> Any:
        return environment.reset(key)

    def move(state: Any, action: Array, key: Key[Array, ""]) -> tuple[Any, Step]:
        return environment.step(state, action, key)

    def step(carry: Any, key: Key[Array, ""]) -> Any:
        states, observations, going = carry
        act_key, move_key = jax.random.split(key)
        actions = jax.random.categorical(act_key, jnp.log(jnp.asarray(policy(observations)))).astype(jnp.int32)
        states, found = jax.vmap(move)(states, actions, jax.random.split(move_key, episodes))
        row = (observations, actions, found.reward, found.observation, found.terminated, found.truncated, going)
        return (states, found.observation, going & ~(found.terminated | found.truncated)), row

    # It runs once: compiled quickly rather than well.
    @functools.partial(jax.jit, compiler_options=known_options(QUICK))
    def play(key: Key[Array, ""]) -> Any:
        start_key, key = jax.random.split(key)
        states, observations = jax.vmap(begin)(jax.random.split(start_key, episodes))
        going: Bool[Array, " episode"] = jnp.ones(episodes, bool)
        return jax.lax.scan(step, (states, observations, going), jax.random.split(key, limit))[1]

    rows = jax.tree.map(lambda x: np.swapaxes(np.asarray(x), 0, 1), play(prng.key(seed)))
    lived = rows[-1].reshape(-1)
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[lived], rows)
    observation, action, reward, following, terminated, truncated, _ = flat
    episode = np.repeat(np.arange(episodes), rows[-1].sum(1))
    last = np.append(np.diff(episode) != 0, True)
    probability = np.asarray(policy(observation), np.float64)[np.arange(len(action)), action]
    return LoggedEpisodes(
        observation, action, reward, following, terminated, truncated | (last & ~terminated), probability, episode
    )
