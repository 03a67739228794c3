"""Episodes that begin in states that the agent has visited."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from forage.core.ports import Environment, RolloutReport, Starts
from forage.core.ports.needs import Needs
from forage.core.types import Experience, Spec


class ArchiveState(NamedTuple):
    places: Any  # (environment state, observation) of each place kept; leaves [capacity, ...]
    seen: Int[Array, ""]  # places offered so far


class Archive(Starts):
    """An archive of visited states; with `probability`, an episode begins in one of them, drawn uniformly.

    After each rollout the state that every environment stands in is offered, except where an episode has just
    ended: neither the state that ended it nor the start that follows it is kept. The archive is a uniform sample of
    all states offered (reservoir sampling: the n-th is kept with probability capacity / n, in place of a random one).
    An episode begins with `environment.reset` while the archive is empty, and otherwise with 1 - probability.

    A state is restored with the environment's own clock, so that as much of a time limit remains as there was then.

    Source: Tavakoli, Levdik, Islam, Smith, Kormushev (2018), "Exploring Restart Distributions", arXiv 1811.11298, whose
    uniform restarts these are. It is the return of Go-Explore (Ecoffet, Huizinga, Lehman, Stanley, Clune, 2021, "First
    return, then explore", Nature 590, arXiv 2004.12919) without its cells and its choice among them. The reservoir:
    Vitter (1985), "Random sampling with a reservoir".
    """

    example: ClassVar[str] = "forage train ppo DeepSea-10 --starts archive"

    adapts: ClassVar[bool] = True
    on_host: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(
        same_task=True, instead="use --tasks same, or let episodes begin with --starts reset"
    )

    capacity: int = equinox.field(static=True, default=1024)  # states kept, a uniform sample of those offered
    probability: float = 0.5  # probability that an episode begins from the archive

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> ArchiveState:
        env_state, observation = environment.reset(key)
        place = (
            env_state,
            environment.stored_observation(observation),
        )  # fills the buffer until there is something; never drawn
        return ArchiveState(jax.tree.map(lambda x: jnp.broadcast_to(x, (self.capacity, *x.shape)), place), jnp.int32(0))

    def begin(
        self, state: ArchiveState, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], tuple[()]]:
        reset_key, choice_key, place_key = jax.random.split(key, 3)
        kept = jnp.minimum(state.seen, self.capacity)
        index = jax.random.randint(place_key, (), 0, jnp.maximum(kept, 1))
        again = (kept > 0) & (jax.random.uniform(choice_key) < self.probability)
        env_state, observation = environment.reset(reset_key)
        fresh = env_state, environment.stored_observation(observation)
        place = jax.tree.map(lambda places, fresh: jnp.where(again, places[index], fresh), state.places, fresh)
        return *place, ()

    def report(self, state: ArchiveState, rollout: Experience, review: RolloutReport) -> ArchiveState:
        environment, visited = review.environment, review.visited
        # If the episode continues, the current observation is the last next_observation.
        observation = environment.stored_observation(jax.tree.map(lambda x: x[-1], rollout.next_observation))
        env_states = jax.tree.map(lambda x: x[-1], visited.env_states)
        return self.offer(state, (env_states, observation), ~visited.gone[-1], review.key)

    def offer(
        self, state: ArchiveState, places: Any, eligible: Bool[Array, " env"], key: Key[Array, ""]
    ) -> ArchiveState:
        """Put the eligible places (leaves `env ...`) before the reservoir, in order."""
        number = state.seen + jnp.cumsum(eligible)  # of each place among all offered, from 1
        drawn = jax.random.randint(key, number.shape, 0, jnp.maximum(number, 1))
        slot = jnp.where(number <= self.capacity, number - 1, drawn)
        slot = jnp.where(eligible, slot, self.capacity)  # out of bounds: dropped
        # Each slot takes the last place that fell on it: one winner for all leaves, on any hardware.
        winner = jnp.full(self.capacity, -1).at[slot].max(jnp.arange(slot.size), mode="drop")

        def put(kept: Array, offered: Array) -> Array:
            taken = (winner >= 0).reshape(-1, *[1] * (kept.ndim - 1))
            return jnp.where(taken, offered[winner], kept)

        return ArchiveState(jax.tree.map(put, state.places, places), state.seen + eligible.sum())
