"""Numbers of any size as shares of a few points, which a network learns as it learns classes.

    symexp(x)        sign(x) (exp(|x|) - 1)
    two_hot(x)       shares of the two points next to x whose mean is x:  (b - x) / (b - a) of a and the rest of b

Points that are evenly spaced before `symexp` are close to each other near zero and far apart far from it. Sources:
Hafner, Pasukonis, Ba, Lillicrap (2023), "Mastering Diverse Domains through World Models", arXiv 2301.04104; Bellemare,
Dabney, Munos (2017), "A Distributional Perspective on Reinforcement Learning", arXiv 1707.06887.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def symexp(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute sign(x) (exp(|x|) - 1), the inverse of sign(x) log(|x| + 1)."""
    return jnp.sign(x) * jnp.expm1(jnp.abs(x))


def two_hot(x: Float[Array, "*batch"], points: Float[Array, " points"]) -> Float[Array, "*batch points"]:
    """Return the weights of the ascending points whose weighted mean is `x`, clipped to their range."""
    points = jnp.asarray(points)
    x = jnp.clip(x, points[0], points[-1])
    below = jnp.clip(jnp.searchsorted(points, x, side="right", method="compare_all") - 1, 0, len(points) - 2)
    low, high = points[below], points[below + 1]
    upper = ((x - low) / (high - low))[..., None]
    first = jax.nn.one_hot(below, len(points))
    return (1 - upper) * first + upper * jax.nn.one_hot(below + 1, len(points))
