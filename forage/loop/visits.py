"""Where an agent has been while it learned, and when it was first paid: measured without a trace in the loop."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from forage.core.ports import Environment
from forage.core.types import Clock, Experience
from forage.nn.distributions import entropy


class Visits(NamedTuple):
    """Of one seed's whole run."""

    counts: Int[Array, " place"]  # steps that led to each place of the environment's map; empty without a map
    first: Int[Array, ""]  # environment steps until the first reward above zero, that one included; -1: none yet


def nothing(environment: Environment) -> Visits:
    """Before the first step."""
    return Visits(jnp.zeros(math.prod(environment.places) if environment.places else 0, jnp.int32), jnp.int32(-1))


def hear(visits: Visits, places: Int[Array, "time env"] | tuple[()], rollout: Experience, clock: Clock) -> Visits:
    """Counts a rollout. `clock` reads as it did when it began."""
    counts = visits.counts if isinstance(places, tuple) else visits.counts.at[places.reshape(-1)].add(1)
    reward = rollout.reward.reshape(*rollout.reward.shape[:2], -1).sum(-1)
    paid = (reward > 0).any(1)
    now = clock.steps + (jnp.argmax(paid) + 1) * reward.shape[1]
    return Visits(counts, jnp.where((visits.first < 0) & paid.any(), now, visits.first).astype(jnp.int32))


def measures(visits: Visits) -> dict[str, Float[Array, ""]]:
    """What a point of training says.

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
        "visitation_entropy": entropy(share),
    }
