"""Random reshuffling: every stored segment is replayed once before any of them is replayed again."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from forage.core.ports import ActContext, Environment
from forage.core.types import Batch, Clock, Experience, Spec
from forage.memory.uniform import UniformReplay
from forage.ops.ring import Ring, empty_ring, extent, oldest, read_segments, truncate, write_rollout


class ReshuffledState(NamedTuple):
    ring: Ring
    order: Int[Array, " places"]  # of the ring's places, in this epoch and in the next one
    begin: Int[Array, ""]  # where in the order the batch begins
    end: Int[Array, ""]  # where the next one will


class ReshuffledReplay(UniformReplay):
    """The newest `capacity` transitions, replayed in a random order that is redrawn once an epoch.

    An epoch is a random order of all places of the ring, written or not. Batches take what stands there one after the
    other; places from which there is no segment yet are passed over, and what is written during an epoch is replayed
    in it if its place is still to come. A batch that is larger than what there is takes several turns through it.

    Source: Fujita, 2025, "Experience Replay with Random Reshuffling", arXiv 2503.02269: RR-C, as in the authors'
    `rrc/rrc.py` (`RRCReplayBuffer`). Its form for prioritised replay, RR-M, is `prioritised-reshuffled`.
    """

    example: ClassVar[str] = "forage train dqn CartPole-v1 --memory reshuffled"

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> ReshuffledState:
        ring = empty_ring(self.capacity, example, num_envs, rollout_length, spec.observation_space)
        places = math.prod(extent(ring))
        return ReshuffledState(ring, jnp.zeros(2 * places, jnp.int32), jnp.int32(0), jnp.int32(2 * places))

    def add(self, state: ReshuffledState, rollout: Experience, clock: Clock) -> ReshuffledState:
        return state._replace(ring=write_rollout(state.ring, rollout, clock))

    def truncate(self, state: ReshuffledState, clock: Clock) -> ReshuffledState:
        return state._replace(ring=truncate(state.ring, clock))

    def advance(self, state: ReshuffledState, size: int, length: int, moment: ActContext) -> ReshuffledState:
        places = state.order.size // 2

        def shuffle(i: Int[Array, ""], order: Int[Array, " places"]) -> Int[Array, " places"]:
            later = jax.random.permutation(jax.random.fold_in(moment.key, i), places).astype(jnp.int32)
            return jnp.concatenate([order[places:], later])

        order = jax.lax.fori_loop(0, state.end // places, shuffle, state.order)
        state = state._replace(order=order, begin=state.end % places)
        return state._replace(end=self.draw_places(state, size, length, moment)[1])

    def sample(self, state: ReshuffledState, size: int, length: int, moment: ActContext) -> Batch:
        index, _ = self.draw_places(state, size, length, moment)
        return Batch(read_segments(state.ring, index, length), jnp.ones(size), index)

    def draw_places(
        self, state: ReshuffledState, size: int, length: int, moment: ActContext
    ) -> tuple[Int[Array, " batch"], Int[Array, ""]]:
        """Return the next `size` places with a complete segment, and the place in the order for the next batch."""
        capacity, num_envs = extent(state.ring)
        newest = moment.clock.steps // num_envs
        first, _ = oldest(state.ring, newest)
        starts = jnp.maximum(newest - first - length + 1, 1)
        both = state.order.size
        chunk = min(size, both // 2)

        def look(found: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            index, count, place = found
            ahead = state.order[(place + jnp.arange(chunk)) % both]
            there = (ahead // num_envs - first) % capacity < starts
            rank = count + jnp.cumsum(there) - 1
            index = index.at[jnp.where(there & (rank < size), rank, size)].set(ahead, mode="drop")
            # All of the chunk has been looked at, or what stands before the last one that is taken and itself.
            passed = jnp.where(rank[-1] < size - 1, chunk, jnp.argmax(rank >= size - 1) + 1)
            return index, jnp.minimum(rank[-1] + 1, size), place + passed

        begin = jnp.zeros(size, jnp.int32), jnp.int32(0), state.begin
        index, _, place = jax.lax.while_loop(lambda found: found[1] < size, look, begin)
        return index, place % both
