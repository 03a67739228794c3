"""Quantiles of returns, learned from samples.

Koenker and Bassett (1978), as Dabney, Rowland, Bellemare, Munos (2018), "Distributional Reinforcement Learning with
Quantile Regression", arXiv 1710.10044, use it.
"""

from __future__ import annotations

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float


def quantile_error(
    quantiles: Float[Array, "batch quantiles"],
    samples: Float[Array, "batch samples"],
    share: Float[Array, "*batch quantiles"] | None = None,
) -> Float[Array, " batch"]:
    """Compute the Huber quantile error of each row, a sum over quantiles of means over samples.

    With M quantiles theta_m at tau_m = (2 m - 1) / 2M and samples y_i it is sum_m mean_i |tau_m - [u < 0]| Huber(u),
    u = y_i - theta_m, whose threshold is 1 (equation 10 of arXiv 1710.10044). `share`: other
    tau_m, of all rows or of each.
    """
    if share is None:
        share = (jnp.arange(quantiles.shape[1]) + 0.5) / quantiles.shape[1]
    error = samples[:, None, :] - quantiles[:, :, None]
    return jnp.sum(jnp.mean(jnp.abs(share[..., None] - (error < 0)) * optax.huber_loss(error), axis=2), axis=1)
