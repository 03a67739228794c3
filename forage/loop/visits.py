"""The places that an agent visited while learning, and its first reward: measured without an effect on the loop."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import jax.scipy.special
from jaxtyping import Array, Float, Int

from forage.core.ports import Environment
from forage.core.types import Clock, Experience


class Visits(NamedTuple):
    """Of one seed's whole run."""

    counts: Int[Array, " place"]  # steps that led to each place of the environment's map; empty without a map
    first: Int[Array, ""]  # environment steps until the first reward above zero, that one included; -1: none yet
    begun: Int[Array, " place"] | tuple[()] = ()  # episodes that began at each place; where the loop knows it


class Places(NamedTuple):
    """The places of a rollout's steps."""

    led: Int[Array, "time env"]  # where each step led to
    begun: Int[Array, "time env"]  # where an episode's first step began; for all others a place beyond the map


def no_visits(environment: Environment) -> Visits:
    """Before the first step."""
    none = jnp.zeros(math.prod(environment.map_shape) if environment.map_shape else 0, jnp.int32)
    return Visits(none, jnp.int32(-1), none)


def count_visits(
    visits: Visits, places: Places | Int[Array, "time env"] | tuple[()], rollout: Experience, clock: Clock
) -> Visits:
    """Count a rollout. `clock` reads as it did at its start. `places` may hold only those after the steps."""
    counts, begun = visits.counts, visits.begun
    if isinstance(places, Places):
        assert not isinstance(begun, tuple)
        begun = begun.at[places.begun.reshape(-1)].add(1, mode="drop")
        places = places.led
    if not isinstance(places, tuple):
        counts = counts.at[places.reshape(-1)].add(1)
    reward = rollout.reward.reshape(*rollout.reward.shape[:2], -1).sum(-1)
    paid = (reward > 0).any(1)
    now = clock.steps + (jnp.argmax(paid) + 1) * reward.shape[1]
    return Visits(counts, jnp.where((visits.first < 0) & paid.any(), now, visits.first).astype(jnp.int32), begun)


def measures(visits: Visits) -> dict[str, Float[Array, ""]]:
    """Return the metrics of a point of training.

    places_visited       how many places of the map were visited
    visitation_entropy   -sum_s d(s) ln d(s), in nats, where d(s) is the share of steps that led to s
    first_reward         environment steps until the first reward above zero; NaN before it
    """
    first = jnp.where(visits.first < 0, jnp.nan, visits.first.astype(jnp.float32))
    if not visits.counts.size:
        return {"first_reward": first}
    share = visits.counts / jnp.maximum(visits.counts.sum(), 1)  # a run has fewer than 2^31 steps
    return {
        "first_reward": first,
        "places_visited": (visits.counts > 0).sum().astype(jnp.float32),
        "visitation_entropy": jax.scipy.special.entr(share).sum(),
    }
