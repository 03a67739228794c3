"""Replay of whole episodes with their returns: what `Mixed` keeps of a run for agents that learn from returns."""

from __future__ import annotations

from typing import NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage.core.ports import Environment, Moment
from forage.core.types import Batch, Clock, Experience, Spec
from forage.memory.uniform import UniformReplay
from forage.ops.ring import FrameRing, Ring, extent, kept, oldest, read, truncate, write


class ReturnsState(NamedTuple):
    ring: Ring  # whose `return_to_go` is what is known so far of an episode under way
    running: Int[Array, " env"]  # steps so far of the episodes under way


class ReplayOfReturns(UniformReplay):
    """The newest transitions with the returns of their episodes, of which only those that are over are drawn.

    The return of a transition is the discounted sum of the rewards from it to the end of its episode; after a
    truncation the last reward counts as going on for ever, as in data sets (`forage.data.episodes`). The authors of
    calibrated Q-learning add an episode to their buffer when it is over, too (JaxCQL/sampler.py).
    """

    discount: float = 0.99  # of the returns, the agent's
    longest: int | None = equinox.field(static=True, default=None)  # steps of the longest episode; `None`: unknown

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> ReturnsState:
        ring = super().init(example, num_envs, rollout_length, spec, environment)
        return ReturnsState(ring, jnp.zeros(num_envs, jnp.int32))

    def add(self, state: ReturnsState, rollout: Experience, clock: Clock) -> ReturnsState:
        reward = rollout.return_to_go
        assert not isinstance(reward, tuple)
        capacity, num_envs = extent(state.ring)
        length, position = len(reward), clock.steps // num_envs % capacity
        returns = self.returns(reward, rollout.terminated, rollout.truncated)
        ring = write(state.ring, rollout._replace(return_to_go=returns), clock)
        # What an episode is paid in this rollout counts for its earlier steps as well.
        ring = self.credited(ring, (position - 1) % capacity, state.running, returns[0], capacity - length)
        after = jnp.argmax(rollout.ended[::-1], axis=0)  # steps after the last end
        running = jnp.where(rollout.ended.any(0), after, state.running + length).astype(jnp.int32)
        return ReturnsState(ring, running)

    def returns(
        self, reward: Float[Array, "time env"], terminated: Bool[Array, "time env"], truncated: Bool[Array, "time env"]
    ) -> Float[Array, "time env"]:
        """Compute the returns within a rollout, of which nothing is known after its last step."""

        def step(later: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            reward, terminated, truncated = now
            later = jnp.where(terminated, 0.0, jnp.where(truncated, reward / (1 - self.discount), later))
            total = reward + self.discount * later
            return total, total

        return jax.lax.scan(step, jnp.zeros_like(reward[0]), (reward, terminated, truncated), reverse=True)[1]

    def credited(
        self, ring: Ring, last: Int[Array, ""], steps: Int[Array, " env"], value: Float[Array, " env"], most: int
    ) -> Ring:
        """Add a value to the returns of the `steps` transitions up to the row `last`, discounted by how far it comes.

        `most`: rows that may be written.
        """
        most = most if self.longest is None else min(most, self.longest)
        experience = kept(ring)
        capacity, _ = extent(ring)
        distance = jnp.arange(1, most + 1)
        share = jnp.where(distance[:, None] <= steps, jnp.power(self.discount, distance)[:, None] * value, 0.0)
        told = jnp.asarray(experience.return_to_go).at[(last + 1 - distance) % capacity].add(share)
        experience = experience._replace(return_to_go=told)
        return ring._replace(experience=experience) if isinstance(ring, FrameRing) else experience

    def truncate(self, state: ReturnsState, clock: Clock) -> ReturnsState:
        capacity, num_envs = extent(state.ring)
        newest = (clock.steps // num_envs - 1) % capacity
        last = jnp.asarray(kept(state.ring).return_to_go)[newest]  # of an episode under way this is one reward
        ring = self.credited(truncate(state.ring, clock), newest, state.running, last / (1 - self.discount), capacity)
        return ReturnsState(ring, jnp.zeros_like(state.running))

    def ready(self, state: ReturnsState, length: int, moment: Moment) -> tuple[Int[Array, " env"], Int[Array, ""]]:
        """Return how many segments of episodes that are over there are, and the first step that can be read."""
        newest = moment.clock.steps // len(state.running)
        first, _ = oldest(state.ring, newest)
        return jnp.maximum(newest - first - state.running - length + 1, 0), first

    def sample(self, state: ReturnsState, size: int, length: int, moment: Moment) -> Batch:
        capacity, num_envs = extent(state.ring)
        there, first = self.ready(state, length, moment)
        until = jnp.cumsum(there)
        draw = jax.random.randint(moment.key, (size,), 0, jnp.maximum(until[-1], 1))
        env = jnp.minimum(jnp.searchsorted(until, draw, side="right"), num_envs - 1)
        time = (first + draw - (until - there)[env]) % capacity
        index = time * num_envs + env
        return Batch(read(state.ring, index, length), jnp.ones(size), index)
