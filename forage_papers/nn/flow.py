"""Flow matching: a velocity field that carries noise to data.

Lipman, Chen, Ben-Hamu, Nickel, Le (2023), "Flow Matching for Generative Modeling", arXiv 2210.02747, on the straight
paths of Liu, Gong, Liu (2023), "Flow Straight and Fast", arXiv 2209.03003. With x_1 of the data, x_0 standard normal
and t uniform in [0, 1], a field v learns by steps down

    mean |v(x_t, t) - (x_1 - x_0)|^2,   x_t = (1 - t) x_0 + t x_1

and dx/dt = v(x, t) carries x_0 to a sample of the data, in Euler steps of equal length. A field that also gets a
condition y, now and then none, is guided towards y (Zheng, Le, Shaul, Lipman, Grover, Chen, 2023, "Guided Flows for
Generative Modeling and Decision Making", arXiv 2311.13443) by

    v(x, t) + weight (v(x, t, y) - v(x, t))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

Field = Callable[[Float[Array, "*batch dimensions"], Float[Array, "*batch 1"]], Float[Array, "*batch dimensions"]]
"""v(x, t)."""


def draw_between(
    data: Float[Array, "*batch dimensions"], key: Key[Array, ""]
) -> tuple[Float[Array, "*batch dimensions"], Float[Array, "*batch 1"], Float[Array, "*batch dimensions"]]:
    """Draw a point on the way to each row of the data, and return it, its time and the velocity there."""
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, data.shape)
    time = jax.random.uniform(time_key, (*data.shape[:-1], 1))
    return (1 - time) * noise + time * data, time, data - noise


def matching_error(
    field: Field, data: Float[Array, "*batch dimensions"], key: Key[Array, ""]
) -> Float[Array, "*batch"]:
    """Compute the mean squared error of the field against the velocity at a random point on the path to each row."""
    point, time, velocity = draw_between(data, key)
    return jnp.mean((field(point, time) - velocity) ** 2, axis=-1)


def integrate_field(
    field: Field, noise: Float[Array, "*batch dimensions"], steps: int
) -> Float[Array, "*batch dimensions"]:
    """Move noise along the field by Euler's method in `steps` steps."""

    def step(x: Any, number: Any) -> tuple[Any, None]:
        time = jnp.full((*noise.shape[:-1], 1), number / steps)
        return x + field(x, time) / steps, None

    return jax.lax.scan(step, noise, jnp.arange(steps))[0]


def guide_velocity(
    without: Float[Array, "*batch dimensions"], conditioned: Float[Array, "*batch dimensions"], weight: Any
) -> Float[Array, "*batch dimensions"]:
    """Return the velocity that is guided towards a condition: 0 not at all, 1 by the condition alone, and beyond."""
    return without + weight * (conditioned - without)
