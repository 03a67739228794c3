"""The divergence from the first policy as a price: taken from the reward of whole answers, or token by token.

    price_t = log pi_old(token_t) - log pi_first(token_t)     k1, which is right in a reward (ops/tokens/divergence)

    reward-sequence   r - scale sum_t price_t                      before answers are compared: RLOO
    reward-token      r - scale sum_{i >= t} price_i, at token t   the price of this and later tokens: ReMax,
    REINFORCE++

Sources: Ahmadian et al., 2024, arXiv 2402.14740, as in TRL's `rloo_trainer.py` (reward-sequence); Li et al., 2023,
"ReMax", arXiv 2310.10505, as in the authors' `remax_trainer.py`, and Hu, 2025, "REINFORCE++", arXiv 2501.03262
(reward-token). The papers' own pages could not be looked up.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.ops.tokens.masks import token_mean, where_mask

PLACEMENTS = ("loss", "reward-sequence", "reward-token")
"""Placements of a divergence: in the loss, in the reward of answers, or in that of their tokens."""

PER_TOKEN = ("none", "remax", "reinforce++")
"""The advantages that may be charged token by token."""


def penalty_to_go(
    old: Float[Array, "row new"], reference: Float[Array, "row new"], wrote: Bool[Array, "row new"], turns: int
) -> Float[Array, "row new"]:
    """Return the sum of prices from each token to the end of its conversation. Rows are turn after turn."""
    price = where_mask(old - reference, wrote)
    rows, new = price.shape
    each = price.reshape(turns, rows // turns, new).swapaxes(0, 1).reshape(rows // turns, turns * new)
    total = jnp.flip(jnp.cumsum(jnp.flip(each, 1), 1), 1)
    total = total.reshape(rows // turns, turns, new).swapaxes(0, 1).reshape(rows, new)
    return jax.lax.stop_gradient(total)


def token_advantages(
    name: str,
    reward: Float[Array, " row"],
    price: Float[Array, "row new"],
    baseline: Float[Array, " row"],
    mask: Bool[Array, "row new"],
    epsilon: float = 1e-8,
) -> Float[Array, "row new"]:
    """Return the advantage of each token, by the name of an advantage in `PER_TOKEN`.

        none          r - price
        remax         r - price - baseline
        reinforce++   the same without a baseline, less its mean over the batch's tokens, over their deviation

    Source: the last as in verl's `compute_reinforce_plus_plus_outcome_advantage`, from which epsilon is.
    """
    value = reward[:, None] - price
    if name == "remax":
        value = value - baseline[:, None]
    if name == "reinforce++":
        mean = token_mean(value, mask)
        spread = jnp.sum(where_mask((value - mean) ** 2, mask)) / jnp.maximum(jnp.sum(mask) - 1, 1)
        value = (value - mean) * jax.lax.rsqrt(spread + epsilon)
    return jnp.where(mask, value, 0.0)
