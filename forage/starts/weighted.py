"""Drawing one of many places in proportion to their weights, and never one of weight zero."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def cumulative_weights(weights: Float[Array, " place"]) -> Float[Array, " place"]:
    """Return the cumulative sums of weights, exactly flat over weights of zero.

    `cumsum` alone adds in an order of its own for each place, so that its rounding rises over weights of zero.
    """
    return jax.lax.cummax(jnp.where(weights > 0, jnp.cumsum(weights), 0.0))


def draw_place(sums: Float[Array, " place"], share: Float[Array, ""]) -> Int[Array, ""]:
    """Return the place at `share`, in [0, 1), of the cumulative `sums`; the last one if all weights are zero."""
    target = jnp.minimum(share, 1 - 2**-22) * sums[-1]
    return jnp.minimum(jnp.searchsorted(sums, target, side="right"), sums.size - 1)
