"""The selection of the most informative answers of a group, and of their tokens."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Scalar = float | Float[Array, ""]


def varied_mask(advantage: Float[Array, "group answer"], share: Scalar) -> Float[Array, "group answer"]:
    """Return 1 for the share of answers of each group with the most varied advantages, and 0 for the others.

    Of G answers k = ceil(share G) are kept, at least 2. The subset of greatest variance has the i highest and the k - i
    lowest advantages for some i, so that trying every i finds it. Of subsets with one variance the one with fewest high
    answers is taken, and of equal advantages the first answers count as lower.

    Source: Xu, Savani, Fang, Kolter (2025), "Not All Rollouts are Useful", arXiv 2504.13818, which shows where the
    maximum lies; Wang et al. (2025), D3S, arXiv 2509.22115, which keeps such subsets. Their abstracts alone were read.
    """
    count = advantage.shape[1]
    keep = jnp.clip(jnp.ceil(share * count - 1e-4), min(2, count), count)
    order = jnp.argsort(advantage, axis=1)
    rank = jnp.argsort(order, axis=1)  # of each answer, the lowest is 0
    high = jnp.arange(count + 1)[:, None, None]  # i
    chosen = (rank >= count - high) | (rank < keep - high)
    size = jnp.maximum(chosen.sum(-1, keepdims=True), 1)
    mean = (chosen * advantage).sum(-1, keepdims=True) / size
    variance = (chosen * (advantage - mean) ** 2).sum(-1) / size[..., 0]
    variance = jnp.where(high[..., 0] <= keep, variance, -1.0)
    best = jnp.argmax(variance > variance.max(0) - 1e-6, axis=0)
    return jnp.take_along_axis(chosen, best[None, :, None], axis=0)[0].astype(advantage.dtype)


def weightiest(
    score: Float[Array, "sequence time"], mask: Bool[Array, "sequence time"], share: Scalar
) -> Bool[Array, "sequence time"]:
    """Return the mask of tokens with a score at or above the quantile `1 - share` of all tokens that count."""
    bound = jnp.nanquantile(jnp.where(mask, score, jnp.nan), jnp.clip(1.0 - share, 0, 1))
    return mask & (score >= bound)
