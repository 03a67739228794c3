"""Inputs of one update of an agent with critics."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from forage.agents.actor_critic.base import CriticKeys, UpdateInputs
from forage.core.types import GONE, Experience


def inputs_of(
    observation: Any,
    action: Any = None,
    *,
    reward: Any = 0.0,
    next_observation: Any = None,
    terminated: Any = False,
    counts: Any = True,
    weight: Any = 1.0,
    noise: Any = (),
    next_noise: Any = (),
    keys: CriticKeys = CriticKeys(),  # noqa: B008
) -> UpdateInputs:
    """Return the inputs of an update on transitions of these observations; without an action it is one zero each."""
    rows = (len(jax.tree.leaves(observation)[0]),)
    fill = lambda value, dtype: jnp.broadcast_to(jnp.asarray(value, dtype), rows)  # noqa: E731
    action = jnp.zeros((*rows, 1)) if action is None else action
    source = jnp.where(fill(counts, bool), 0, GONE).astype(jnp.int32)
    now = Experience(
        observation,
        action,
        fill(reward, jnp.float32),
        observation if next_observation is None else next_observation,
        fill(terminated, bool),
        fill(False, bool),
        source,
        (),
    )
    return UpdateInputs(now, action, fill(weight, jnp.float32), noise, next_noise, keys)
