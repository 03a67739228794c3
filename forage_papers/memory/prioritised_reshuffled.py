"""Prioritised replay without luck: places drawn more often than their priority wait for the others."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage.core.ports import ActContext, Environment
from forage.core.types import Batch, Clock, Experience, Spec
from forage.memory.prioritised import PrioritisedReplay, PrioritisedState, incomplete
from forage.ops.ring import extent

MASK = 1e-8  # what is left of the priority of those that wait, as in the authors' program


class ReshuffledState(NamedTuple):
    inner: PrioritisedState
    expected: Float[Array, " places"]  # how often each place was due, as a sum of probabilities
    actual: Float[Array, " places"]  # how often it was drawn
    waits: Bool[Array, " places"]  # those that had been drawn more often than they were due, when the batch was drawn


class PrioritisedReshuffledReplay(PrioritisedReplay):
    """Prioritised replay with draws that follow their priorities without the luck of sampling.

    For each place i of the ring the memory counts how often it was drawn and how often it was due, which grows by
    size p_i / sum_j p_j with each batch of that size. Where it was drawn more often than it was due, it waits: its
    priority counts 1e-8 of itself. A batch draws no place twice, unless there are fewer places than it has room for.
    With equal priorities that is an epoch of each place once, as `reshuffled` has it. What overwrites a transition
    begins with both counts at zero, and what is due of the others is scaled so that both sums stay equal. Priorities
    and weights are those of `prioritised`. The work of a draw grows with the capacity.

    Source: Fujita, 2025, "Experience Replay with Random Reshuffling", arXiv 2503.02269: RR-M, as in the authors'
    `rrm/utils.py` (`PrioritizedAtariBuffer`), which adds it to another form of prioritised replay, LAP.
    """

    example: ClassVar[str] = "forage train dqn CartPole-v1 --memory prioritised-reshuffled --memory.capacity 10k"

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> ReshuffledState:
        inner = super().init(example, num_envs, rollout_length, spec, environment)
        places = math.prod(extent(inner.experience))
        return ReshuffledState(inner, jnp.zeros(places), jnp.zeros(places), jnp.zeros(places, bool))

    def add(self, state: ReshuffledState, rollout: Experience, clock: Clock) -> ReshuffledState:
        places, written = state.actual.size, rollout.terminated.size
        first = clock.steps % places
        expected, actual = (
            jax.lax.dynamic_update_slice(counts, jnp.zeros(written), (first,))
            for counts in (state.expected, state.actual)
        )
        due = expected.sum()
        expected = expected * jnp.where(due > 0, actual.sum() / jnp.maximum(due, 1e-8), 1.0)
        return state._replace(inner=super().add(state.inner, rollout, clock), expected=expected, actual=actual)

    def truncate(self, state: ReshuffledState, clock: Clock) -> ReshuffledState:
        return state._replace(inner=super().truncate(state.inner, clock))

    def advance(self, state: ReshuffledState, size: int, length: int, moment: ActContext) -> ReshuffledState:
        state = state._replace(waits=state.actual > state.expected)
        index, priority = self.draw_places(state, size, length, moment)
        expected = state.expected + size * priority / jnp.maximum(priority.sum(), 1e-30)
        return state._replace(expected=expected, actual=state.actual.at[index].add(1.0))

    def sample(self, state: ReshuffledState, size: int, length: int, moment: ActContext) -> Batch:
        index, priority = self.draw_places(state, size, length, moment)
        return self.weighted_segments(state.inner, index, priority[index], length, moment.clock)

    def report(self, state: ReshuffledState, batch: Batch, errors: Float[Array, " batch"]) -> ReshuffledState:
        return state._replace(inner=super().report(state.inner, batch, errors))

    def draw_places(
        self, state: ReshuffledState, size: int, length: int, moment: ActContext
    ) -> tuple[Int[Array, " batch"], Float[Array, " places"]]:
        """Draw places without replacement; also return all priorities, zero for places without a segment."""
        places = state.actual.size
        priority = state.inner.tree[-1][:places]
        if (left_out := incomplete(state.inner.experience, length, moment.clock)) is not None:
            priority = jnp.where(left_out.contains(jnp.arange(places)), 0.0, priority)
        # The largest of log p + Gumbel noise are draws in proportion to p, one after the other without replacement.
        logits = jnp.log(jnp.where(state.waits, MASK, 1.0)) + jnp.log(priority)
        order = jax.lax.top_k(logits + jax.random.gumbel(moment.key, (places,)), min(size, places))[1]
        there = jnp.clip((priority > 0).sum(), 1, order.size)
        return order[jnp.arange(size) % there].astype(jnp.int32), priority
