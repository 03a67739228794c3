"""Uniform replay: a ring of the newest transitions, from which every stored segment is drawn equally often."""

from __future__ import annotations

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from forage.ports import Memory
from forage.types import Batch, Clock, Experience, ForageError


class UniformReplay(Memory):
    """The newest `capacity` transitions, replayed uniformly.

    `capacity` counts transitions of all environments together, rounded down to whole rollouts. The state is one
    `Experience` with leaves `[time, env, ...]`. Where to write and how much is stored follow from the clock, which all
    seeds share, so that writing stays one slice, in place, under `vmap` over seeds too.

    Source: Lin, 1992, "Self-Improving Reactive Agents Based on Reinforcement Learning, Planning and Teaching",
    Machine Learning 8; Mnih et al., 2015, "Human-level control through deep reinforcement learning", Nature 518.
    """

    capacity: int = equinox.field(static=True, default=100_000)

    def init(self, example: Experience, num_envs: int, rollout_length: int) -> Experience:
        return empty_ring(self.capacity, example, num_envs, rollout_length)

    def add(self, state: Experience, rollout: Experience, clock: Clock) -> Experience:
        return write(state, rollout, clock)

    def sample(self, state: Experience, size: int, length: int, clock: Clock, key: Key[Array, ""]) -> Batch:
        capacity, num_envs = state.terminated.shape
        newest = clock.steps // num_envs  # time steps since the run began
        stored = jnp.minimum(newest, capacity)
        starts = jnp.maximum(stored - length + 1, 1)  # never less than one, so that the arithmetic holds whatever comes
        draw = jax.random.randint(key, (size,), 0, starts * num_envs)
        time = (newest - stored + draw // num_envs) % capacity
        index = time * num_envs + draw % num_envs
        return Batch(read(state, index, length), jnp.ones(size), index)


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
