"""Replay of whole histories: segments begin at an episode's start or a whole multiple of their length later."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from forage.core.ports import ActContext, Environment, Memory
from forage.core.types import Batch, Clock, Experience, Spec
from forage.ops.ring import Ring, empty_ring, extent, oldest, read_segments, truncate, write_rollout


class EpisodesState(NamedTuple):
    experience: Ring
    age: Int[Array, "time env"]  # steps of its episode before each transition
    running: Int[Array, " env"]  # steps so far of the episodes under way


class Episodes(Memory):
    """The newest `capacity` transitions; a segment is a whole episode, or one of the equal pieces of a long one.

    It is for agents with memory, which know nothing yet where such a segment begins. All segments are drawn equally
    often, so that all transitions count alike: to draw episodes as often as they have steps, as the authors' code does,
    and to learn from each of their steps, would count those of long episodes more, and ends less than there are. Where
    an episode is shorter than the segment, what comes after its end is of others and not to be learned from.
    Pieces that are not complete yet, or whose beginning was overwritten, are not drawn; a capacity of at least two
    segments of each environment always holds one.

    Source: Yang and Nguyen, 2021, "Recurrent Off-policy Baselines for Memory-based Continuous Control",
    arXiv:2110.12628, as in the authors' code (`replay_buffer_recurrent.py`), which keeps 1,000,000 transitions.
    """

    example: ClassVar[str] = "forage train recurrent-sac Pendulum-v1 --memory episodes --memory.capacity 50k"

    capacity: int = equinox.field(static=True, default=100_000)  # newest transitions kept, of all environments
    # together; more replay older ones

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> EpisodesState:
        experience = empty_ring(self.capacity, example, num_envs, rollout_length, spec.observation_space)
        return EpisodesState(experience, jnp.zeros(extent(experience), jnp.int32), jnp.zeros(num_envs, jnp.int32))

    def add(self, state: EpisodesState, rollout: Experience, clock: Clock) -> EpisodesState:
        def step(age: Array, ended: Array) -> tuple[Array, Array]:
            return jnp.where(ended, 0, age + 1), age

        running, age = jax.lax.scan(step, state.running, rollout.ended)
        capacity, num_envs = extent(state.experience)
        position = clock.steps // num_envs % capacity
        age = jax.lax.dynamic_update_slice_in_dim(state.age, age, position, 0)
        return EpisodesState(write_rollout(state.experience, rollout, clock), age, running)

    def truncate(self, state: EpisodesState, clock: Clock) -> EpisodesState:
        return EpisodesState(truncate(state.experience, clock), state.age, jnp.zeros_like(state.running))

    def sample(self, state: EpisodesState, size: int, length: int, moment: ActContext) -> Batch:
        capacity, num_envs = extent(state.experience)
        newest = moment.clock.steps // num_envs  # time steps since the run began
        first, _ = oldest(state.experience, newest)
        # When each stored step was, and where the piece of its episode began that it is in
        time = (newest - 1 - (newest - 1 - jnp.arange(capacity)) % capacity)[:, None]
        begin = time - state.age % length
        over = time - state.age < newest - state.running
        there = (time == begin) & (begin >= first) & (over | (begin + length <= newest))
        places = jnp.cumsum(there.reshape(-1))
        number = jax.random.randint(moment.key, (size,), 0, jnp.maximum(places[-1], 1))
        drawn = jnp.searchsorted(places, number, side="right")
        env = drawn % num_envs
        index = begin.reshape(-1)[drawn] % capacity * num_envs + env
        weight = jnp.where(places[-1] > 0, jnp.ones(size), 0.0)
        return Batch(read_segments(state.experience, index, length), weight, index)
