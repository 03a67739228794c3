"""Entries of an observation as goals: makes any environment with a flat observation goal-conditioned."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox
import gymnasium
import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.ports import State
from forage.core.types import ForageError, Step
from forage.environments.wrappers.base import Wrapper, check_entries


class EntriesState(NamedTuple):
    inner: State
    observation: Float[Array, " entry"]  # the last one, of which some entries are what was achieved

    @property
    def time(self) -> Int[Array, ""]:
        """Return the steps taken."""
        return self.inner.time


class Entries(Wrapper):
    """Goals made of entries of a flat observation, drawn uniformly from a box.

        GoalConditioned(Entries(CartPole(), (0,), (-1.0,), (1.0,)), radius=0.1)

    asks the cart to stand at a drawn place. Everything else is the environment's own.
    """

    indices: tuple[int, ...] = equinox.field(static=True, converter=tuple)
    low: tuple[float, ...] = equinox.field(static=True, converter=tuple)
    high: tuple[float, ...] = equinox.field(static=True, converter=tuple)

    def __check_init__(self):
        space = self.environment.observation_space
        inner = type(self.environment).__name__
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
            raise ForageError(f"Entries needs a flat Box observation; {inner} has {space}.")
        check_entries(self, "make a goal of", self.indices, space.shape[0])
        if not len(self.indices) == len(self.low) == len(self.high):
            raise ForageError(
                f"Entries needs one low and one high for each entry; "
                f"got {len(self.indices)} entries, {len(self.low)} lows and {len(self.high)} highs."
            )
        for index, low, high in zip(self.indices, self.low, self.high, strict=True):
            if not low < high:
                raise ForageError(f"Entries needs low < high for entry {index}; got {low} and {high}.")

    @property
    def goal_space(self) -> gymnasium.spaces.Box:
        """Return the space of achieved goals: the observation's own bounds of these entries."""
        space, kept = self.environment.observation_space, np.array(self.indices)
        assert isinstance(space, gymnasium.spaces.Box)
        return gymnasium.spaces.Box(space.low[kept], space.high[kept], dtype=np.float32)

    def achieved_goal(self, state: EntriesState) -> Float[Array, " goal"]:
        """Return these entries of the observation."""
        return state.observation[np.array(self.indices)]

    def draw_goal(self, state: EntriesState, key: Key[Array, ""]) -> Float[Array, " goal"]:
        """Uniform between `low` and `high`."""
        low, high = np.array(self.low, np.float32), np.array(self.high, np.float32)
        return jax.random.uniform(key, low.shape, minval=low, maxval=high)

    def reset(self, key: Key[Array, ""]) -> tuple[EntriesState, Float[Array, " entry"]]:
        inner, observation = self.environment.reset(key)
        return EntriesState(inner, observation), observation

    def step(self, state: EntriesState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[EntriesState, Step]:
        inner, step = self.environment.step(state.inner, action, key)
        return EntriesState(inner, step.observation), step

    def render(self, state: EntriesState) -> Any:
        return self.environment.render(state.inner)
