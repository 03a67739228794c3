"""What agents that learn a rollout in shuffled minibatches share."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32


def shuffled(bits: UInt32[Array, " count"]) -> Int[Array, " count"]:
    """The numbers below `count` in random order: by random high bits, each number itself in the low ones.

    One array to sort, in place of keys and values; where random bits agree, which is rare, the order is not random.
    """
    low = max(bits.size - 1, 1).bit_length()
    numbered = bits << jnp.uint32(low) | jnp.arange(bits.size, dtype=jnp.uint32)
    return (jnp.sort(numbered) & jnp.uint32(2**low - 1)).astype(jnp.int32)


def standardised(gain: Float[Array, "minibatch *rows"]) -> Float[Array, "minibatch *rows"]:
    """Mean zero and deviation one within each minibatch."""
    rows = gain.reshape(gain.shape[0], -1)
    rows = (rows - rows.mean(1, keepdims=True)) / (rows.std(1, keepdims=True) + 1e-8)
    return rows.reshape(gain.shape)
