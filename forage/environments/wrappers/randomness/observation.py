"""Noisy and blank observations."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from forage.core.ports import State
from forage.core.types import Step
from forage.environments.wrappers.base import Wrapper, change_seen, check_least, check_share, seen_box, without_one_hot


class ObservationNoise(Wrapper):
    """Noisy and blank observations: `o' = (1 - b) (o + observation_noise e)`, clipped to the bounds.

    b is 1 with probability `blanking`, else 0: all that is seen is blank for that step. e is standard normal for each
    entry. Pictures of whole numbers from 0 to 255 get `255 observation_noise e`, rounded; truth values are flipped
    with probability `observation_noise`.

    Source: types 3.1 and 3.2 of Barsainyan, Lim, Liu (2025), "STORI: A Benchmark and Taxonomy for Stochastic
    Environments", arXiv 2509.01793, another representation of the state and blackout.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --wrap observation-noise:0.1"

    observation_noise: float = 0.0  # standard deviation of what is added to observations, in their units
    blanking: float = 0.0  # probability that nothing is seen in a step

    def __check_init__(self):
        check_least(self, "observation_noise", self.observation_noise, 0)
        check_share(self, "blanking", self.blanking)
        if seen_box(self).dtype == np.bool_:
            check_share(self, "observation_noise", self.observation_noise)

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return without_one_hot(self)

    def reset(self, key: Key[Array, ""]) -> tuple[State, PyTree[Array]]:
        state, observation = self.environment.reset(key)
        return state, self._disturb(observation, key)

    def step(self, state: State, action: PyTree[Array], key: Key[Array, ""]) -> tuple[State, Step]:
        state, step = self.environment.step(state, action, key)
        return state, step._replace(observation=self._disturb(step.observation, key))

    def _disturb(self, observation: PyTree[Array], key: Key[Array, ""]) -> PyTree[Array]:
        blank_key, noise_key = jax.random.split(self.own_key(key))
        blank = jax.random.uniform(blank_key) < self.blanking

        def disturb(seen: Array) -> Array:
            noisy = jnp.where(self.observation_noise > 0, self._noisy(seen, noise_key), seen)
            return jnp.where(blank, self._clip(jnp.zeros_like(seen)), noisy)

        return change_seen(observation, disturb)

    def _noisy(self, seen: Array, key: Key[Array, ""]) -> Array:
        if seen.dtype == jnp.bool_:
            return seen ^ (jax.random.uniform(key, seen.shape) < self.observation_noise)
        noise = self.observation_noise * jax.random.normal(key, seen.shape)
        if jnp.issubdtype(seen.dtype, jnp.floating):
            return self._clip(seen + noise.astype(seen.dtype))
        space = seen_box(self)
        scale = (space.high - space.low.astype(np.float32)).astype(np.float32)
        disturbed = jnp.round(seen + scale * noise)
        return jnp.clip(disturbed, space.low.astype(np.float32), space.high.astype(np.float32)).astype(seen.dtype)

    def _clip(self, seen: Array) -> Array:
        """Clip an observation to the space, so that an agent trained without noise can read it."""
        if seen.dtype == jnp.bool_:
            return seen
        space = seen_box(self)
        return jnp.clip(seen, jnp.asarray(space.low, seen.dtype), jnp.asarray(space.high, seen.dtype))
