"""Partial observability: parts of an observation that are missing."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Key, PyTree

from forage.core.types import Step
from forage.environments.wrappers.base import (
    Wrapper,
    WrapperState,
    change_seen,
    check_entries,
    check_share,
    seen_box,
    without_one_hot,
)


class Missing(Wrapper):
    """Each entry of a vector, or channel of a picture, is missing with probability `missing`, for a whole episode.

    What is missing reads 0, or what the bounds have nearest to it. `entries` are those that may be missing, all where
    none is named: with `missing=1` they always are, and `Missing(CartPole(), 1.0, (1, 3))` is a CartPole without
    velocities that an agent of CartPole can still be played in. With `each_step` it is drawn anew in every step.
    A picture `[height, width]` is one channel.

    Source: type 3.2 of Barsainyan, Lim, Liu (2025), "STORI: A Benchmark and Taxonomy for Stochastic Environments",
    arXiv 2509.01793, missing state variables.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --wrap missing:0.25"

    missing: float = 0.25  # probability that an entry is missing
    entries: tuple[int, ...] = equinox.field(static=True, converter=tuple, default=())  # entries that may be missing;
    # all where none are given
    each_step: bool = equinox.field(static=True, default=False)  # what is missing is drawn in every step, not once an
    # episode

    remembers = True

    def __check_init__(self):
        check_share(self, "missing", self.missing)
        if self.entries:
            check_entries(self, "hide", self.entries, self._size)

    @property
    def _size(self) -> int:
        """Return the number of entries or channels."""
        shape = seen_box(self, (1, 2, 3)).shape
        return 1 if len(shape) == 2 else shape[-1]

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return without_one_hot(self)

    def reset(self, key: Key[Array, ""]) -> tuple[WrapperState, PyTree[Array]]:
        inner, observation = self.environment.reset(key)
        hidden = self._draw(key)
        return WrapperState(inner, hidden), self._hide(observation, hidden)

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[WrapperState, Step]:
        inner, step = self.environment.step(state.inner, action, key)
        hidden = self._draw(key) if self.each_step else state.own
        return WrapperState(inner, hidden), step._replace(observation=self._hide(step.observation, hidden))

    def _draw(self, key: Key[Array, ""]) -> Bool[Array, " entries"]:
        size = self._size
        may = np.isin(np.arange(size), self.entries) if self.entries else np.ones(size, bool)
        return (jax.random.uniform(self.own_key(key), (size,)) < self.missing) & may

    def _hide(self, observation: PyTree[Array], hidden: Bool[Array, " entries"]) -> PyTree[Array]:
        space = seen_box(self)
        nothing = np.clip(np.zeros(space.shape), space.low, space.high)
        return change_seen(observation, lambda seen: jnp.where(hidden, jnp.asarray(nothing, seen.dtype), seen))
