"""Replay of whole episodes with their returns: the run's part of `MixedReplay` for agents that learn from returns."""

from __future__ import annotations

from typing import NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage.core.ports import ActContext, Environment
from forage.core.types import Batch, Clock, Experience, ReturnRule, Spec
from forage.memory.uniform import UniformReplay
from forage.ops.ring import FrameRing, Ring, extent, oldest, read_segments, stored_transitions, truncate, write_rollout


class ReturnsState(NamedTuple):
    ring: Ring  # whose `return_to_go` is what is known so far of an episode under way
    running: Int[Array, " env"]  # steps so far of the episodes under way
    failing: Bool[Array, " env"] | None = None  # whether they only fail, if the rule has a reward of failing


class ReplayOfReturns(UniformReplay):
    """The newest transitions with the returns of their episodes; only finished episodes are drawn.

    The return of a transition is the discounted sum of the rewards from it to the end of its episode, by the same rule
    as in data sets (`forage.data.episodes`). The authors of calibrated Q-learning add an episode to their buffer when
    it is over, too (JaxCQL/sampler.py).
    """

    discount: float = 0.99  # of the returns, the agent's
    longest: int | None = equinox.field(static=True, default=None)  # steps of the longest episode; `None`: unknown
    rule: ReturnRule = equinox.field(static=True, default=ReturnRule())  # of truncations and failures, the agent's

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> ReturnsState:
        ring = super().init(example, num_envs, rollout_length, spec, environment)
        failing = None if self.rule.failure_reward is None else jnp.ones(num_envs, bool)
        return ReturnsState(ring, jnp.zeros(num_envs, jnp.int32), failing)

    def add(self, state: ReturnsState, rollout: Experience, clock: Clock) -> ReturnsState:
        reward = rollout.return_to_go
        assert not isinstance(reward, tuple)
        capacity, num_envs = extent(state.ring)
        length, position = len(reward), clock.steps // num_envs % capacity
        returns = self.returns(reward, rollout.terminated, rollout.truncated)
        failed, failing = self.failures(state.failing, reward, rollout.ended)
        final = returns if failed is None else jnp.where(failed, self.worth_of_failure, returns)
        ring = write_rollout(state.ring, rollout._replace(return_to_go=final), clock)
        # What an episode is paid in this rollout counts for its earlier steps as well.
        earlier = None if failed is None else failed[0]
        last = (position - 1) % capacity
        ring = self.add_credit(ring, last, state.running, returns[0], capacity - length, earlier)
        after = jnp.argmax(rollout.ended[::-1], axis=0)  # steps after the last end
        running = jnp.where(rollout.ended.any(0), after, state.running + length).astype(jnp.int32)
        return ReturnsState(ring, running, failing)

    @property
    def worth_of_failure(self) -> float:
        """Return the return of each step of an episode that only fails."""
        assert self.rule.failure_reward is not None
        return self.rule.failure_reward / (1 - self.discount)

    def returns(
        self, reward: Float[Array, "time env"], terminated: Bool[Array, "time env"], truncated: Bool[Array, "time env"]
    ) -> Float[Array, "time env"]:
        """Compute the returns within a rollout, as if all rewards after its last step were zero."""

        def step(later: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            reward, terminated, truncated = now
            beyond = reward / (1 - self.discount) if self.rule.endless else 0.0
            later = jnp.where(terminated, 0.0, jnp.where(truncated, beyond, later))
            total = reward + self.discount * later
            return total, total

        return jax.lax.scan(step, jnp.zeros_like(reward[0]), (reward, terminated, truncated), reverse=True)[1]

    def failures(
        self, failing: Bool[Array, " env"] | None, reward: Float[Array, "time env"], ended: Bool[Array, "time env"]
    ) -> tuple[Bool[Array, "time env"] | None, Bool[Array, " env"] | None]:
        """Find the steps of episodes that end in a rollout and only failed, and the running episodes that only fail.

        `failing`: of the episodes under way before.
        """
        if failing is None or self.rule.failure_reward is None:
            return None, None
        fails = jnp.isclose(reward, self.rule.failure_reward)

        def forward(failing: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            fails, ended = now
            return jnp.where(ended, True, failing & fails), failing & fails

        def backward(failed: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            so_far, ended = now
            failed = jnp.where(ended, so_far, failed)
            return failed, failed

        failing, so_far = jax.lax.scan(forward, failing, (fails, ended))
        nowhere = jnp.zeros_like(ended[0])
        return jax.lax.scan(backward, nowhere, (so_far, ended), reverse=True)[1], failing

    def add_credit(
        self,
        ring: Ring,
        last: Int[Array, ""],
        steps: Int[Array, " env"],
        value: Float[Array, " env"],
        most: int,
        failed: Bool[Array, " env"] | None,
    ) -> Ring:
        """Add a value to the returns of the `steps` transitions up to the row `last`, discounted by distance.

        `most`: rows that may be written. `failed`: episodes that are over and only failed.
        """
        most = most if self.longest is None else min(most, self.longest)
        experience = stored_transitions(ring)
        capacity, _ = extent(ring)
        distance = jnp.arange(1, most + 1)
        theirs, row = distance[:, None] <= steps, (last + 1 - distance) % capacity
        share = jnp.where(theirs, jnp.power(self.discount, distance)[:, None] * value, 0.0)
        told = jnp.asarray(experience.return_to_go).at[row].add(share)
        if failed is not None:
            told = told.at[row].set(jnp.where(theirs & failed, self.worth_of_failure, told[row]))
        experience = experience._replace(return_to_go=told)
        return ring._replace(experience=experience) if isinstance(ring, FrameRing) else experience

    def truncate(self, state: ReturnsState, clock: Clock) -> ReturnsState:
        capacity, num_envs = extent(state.ring)
        newest = (clock.steps // num_envs - 1) % capacity
        last = jnp.asarray(stored_transitions(state.ring).return_to_go)[
            newest
        ]  # of an episode under way this is one reward
        beyond = last / (1 - self.discount) if self.rule.endless else jnp.zeros_like(last)
        ring = truncate(state.ring, clock)
        ring = self.add_credit(ring, newest, state.running, beyond, capacity, state.failing)
        failing = None if state.failing is None else jnp.ones_like(state.failing)
        return ReturnsState(ring, jnp.zeros_like(state.running), failing)

    def ready(self, state: ReturnsState, length: int, moment: ActContext) -> tuple[Int[Array, " env"], Int[Array, ""]]:
        """Return the number of segments of finished episodes, and the first step that can be read."""
        newest = moment.clock.steps // len(state.running)
        first, _ = oldest(state.ring, newest)
        return jnp.maximum(newest - first - state.running - length + 1, 0), first

    def sample(self, state: ReturnsState, size: int, length: int, moment: ActContext) -> Batch:
        capacity, num_envs = extent(state.ring)
        there, first = self.ready(state, length, moment)
        until = jnp.cumsum(there)
        draw = jax.random.randint(moment.key, (size,), 0, jnp.maximum(until[-1], 1))
        env = jnp.minimum(jnp.searchsorted(until, draw, side="right"), num_envs - 1)
        time = (first + draw - (until - there)[env]) % capacity
        index = time * num_envs + env
        return Batch(read_segments(state.ring, index, length), jnp.ones(size), index)
