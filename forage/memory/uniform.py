"""Uniform replay: a ring of the newest transitions with equally likely draws of every stored segment."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp

from forage.core.ports import ActContext, Environment, Memory
from forage.core.types import Batch, Clock, Experience, Spec
from forage.ops.ring import Ring, empty_ring, extent, oldest, read_segments, truncate, write_rollout


class UniformReplay(Memory):
    """The newest `capacity` transitions, replayed uniformly.

    `capacity` counts transitions of all environments together, rounded down to whole rollouts (of all agents, too, or
    of whole teams where the agent is `joint`); 100,000 suit small
    tasks, where DQN's, SAC's and TD3's papers keep 1,000,000. A run takes memory for no more than it has steps. The
    state is one `Experience` with leaves `[time, env, ...]`. Where to write and how much is stored follow from the
    clock, which all seeds share, so that writing stays one slice, in place, under `vmap` over seeds too.

    Observations of 1 kB or more, such as pictures, are kept once: a transition's next observation is the next one's
    observation, and of stacked frames only the newest is new. Where that does not hold, bit for bit, a spare place
    keeps the difference; there is one for every fourth of the first 100,000 transitions, and for every 32nd beyond, and
    where episodes are too short for that the oldest transitions are not replayed. A million transitions of Atari's take
    7.5 GB.

    Source: Lin, 1992, "Self-Improving Reactive Agents Based on Reinforcement Learning, Planning and Teaching",
    Machine Learning 8; Mnih et al., 2015, "Human-level control through deep reinforcement learning", Nature 518.
    """

    example: ClassVar[str] = "forage train dqn CartPole-v1 --memory uniform --memory.capacity 50k"

    joint: ClassVar[bool] = True

    capacity: int = equinox.field(static=True, default=100_000)  # newest transitions kept, of all environments
    # together; more replay older ones

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> Ring:
        return empty_ring(self.capacity, example, num_envs, rollout_length, spec.observation_space)

    def add(self, state: Ring, rollout: Experience, clock: Clock) -> Ring:
        return write_rollout(state, rollout, clock)

    def truncate(self, state: Ring, clock: Clock) -> Ring:
        return truncate(state, clock)

    def sample(self, state: Ring, size: int, length: int, moment: ActContext) -> Batch:
        capacity, num_envs = extent(state)
        newest = moment.clock.steps // num_envs  # time steps since the run began
        first, _ = oldest(state, newest)
        # Never less than one, so that the arithmetic holds whatever comes.
        starts = jnp.maximum(newest - first - length + 1, 1)
        draw = jax.random.randint(moment.key, (size,), 0, starts * num_envs)
        time = (first + draw // num_envs) % capacity
        index = time * num_envs + draw % num_envs
        return Batch(read_segments(state, index, length), jnp.ones(size), index)
