"""First visits to states within an episode."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


class Episode(NamedTuple):
    """The states that each environment's episode has visited."""

    states: Int[Array, "env state"]  # by number; only the first `count` are of this episode
    count: Int[Array, " env"]  # 0 before the first step


def empty_episode(num_envs: int, size: int) -> Episode:
    return Episode(jnp.zeros((num_envs, size), jnp.int32), jnp.zeros(num_envs, jnp.int32))


def first_visits(
    episode: Episode,
    now: Int[Array, "time env"],
    after: Int[Array, "time env"],
    ended: Bool[Array, "time env"],
) -> tuple[Episode, Bool[Array, "time env"]]:
    """Return whether the state `after` each step is new to its episode; the first state counts as seen.

    Of an episode with more different states than there is room for, the oldest are forgotten.
    """

    def one(kept: Episode, seen: tuple[Array, Array, Array]) -> tuple[Episode, Bool[Array, ""]]:
        now, after, ended = seen
        size = kept.states.shape[0]
        states = kept.states.at[0].set(jnp.where(kept.count == 0, now, kept.states[0]))
        count = jnp.maximum(kept.count, 1)
        known = jnp.any((states == after) & (jnp.arange(size) < count))
        states = states.at[count % size].set(jnp.where(known, states[count % size], after))
        return Episode(states, jnp.where(ended, 0, count + ~known)), ~known

    return jax.lax.scan(jax.vmap(one), episode, (now, after, ended))
