"""Rings of the newest transitions, leaves `[time, env, ...]`: rollouts written in place, segments copied out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from forage.types import Clock, Experience, ForageError


def empty_ring(capacity: int, example: Experience, num_envs: int, rollout_length: int) -> Experience:
    """Zeros for `capacity` transitions, rounded down to whole rollouts; leaves `[time, env, ...]`."""
    rollouts = capacity // (num_envs * rollout_length)
    if rollouts == 0:
        raise ForageError(
            f"A replay memory of {capacity} transitions does not hold one rollout of {num_envs} environments times "
            f"{rollout_length} steps; give it a capacity of at least {num_envs * rollout_length}."
        )
    shape = (rollouts * rollout_length, num_envs)
    return jax.tree.map(lambda x: jnp.zeros(shape + x.shape, x.dtype), example)


def write(ring: Experience, rollout: Experience, clock: Clock) -> Experience:
    """Overwrites the oldest rollout. `clock` reads as it did when the new one began."""
    capacity, num_envs = ring.terminated.shape
    position = clock.steps // num_envs % capacity  # a whole number of rollouts, so a rollout never runs over the end
    return jax.tree.map(lambda x, new: jax.lax.dynamic_update_slice_in_dim(x, new, position, 0), ring, rollout)


def truncate(ring: Experience, clock: Clock) -> Experience:
    """Truncates the episodes of the newest step, which nothing will go on with. `clock` reads as after that step."""
    capacity, num_envs = ring.terminated.shape
    newest = (clock.steps // num_envs - 1) % capacity
    return ring._replace(truncated=ring.truncated.at[newest].set(~ring.terminated[newest]))


def read(ring: Experience, index: Int[Array, " batch"], length: int) -> Experience:
    """Copies out the segments of `length` transitions that start at `index = time * num_envs + env`."""
    capacity, num_envs = ring.terminated.shape
    if length > capacity:
        raise ForageError(
            f"A replay memory of {capacity} time steps ({num_envs} environments side by side) holds no segment of "
            f"{length}; give it a capacity of more than {length * num_envs} transitions."
        )
    time = (index // num_envs + jnp.arange(length)[:, None]) % capacity
    return jax.tree.map(lambda x: x[time, index % num_envs], ring)
