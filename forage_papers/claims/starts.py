"""Rules that act in claims about starts."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp


def pump_expert(observation: Any, key: Any) -> Any:
    """Push the car of MountainCar-v0 in the direction of its movement: 0 is left, 2 is right."""
    return jnp.where(observation[1] < 0, 0, 2).astype(jnp.int32)
