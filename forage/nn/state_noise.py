"""Exploration that depends on the state: noise for an action that is linear in a policy's features.

Raffin, Kober, Stulp (2020), "Smooth Exploration for Robotic Reinforcement Learning", gSDE, arXiv 2005.05719. With the
features z of a state, standard deviations sigma that are learned, and a matrix W of standard normal numbers,

    a_i = mu_i + sum_j z_j sigma_ji W_ji,   so that   a_i ~ N(mu_i, sum_j sigma_ji^2 z_j^2)

W is held for several steps; by the marginal on the right actions are as probable as if it were drawn at each.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

SMALLEST = 1e-6
"""Added to the variance, as in the authors' code: features may all be zero."""


def log_deviation(
    log_std: Float[Array, "features dimensions"], features: Float[Array, "*batch features"]
) -> Float[Array, "*batch dimensions"]:
    """log sqrt(sum_j exp(log_std_ji)^2 z_j^2), of a policy with features z."""
    return 0.5 * jnp.log(features**2 @ jnp.exp(2 * log_std) + SMALLEST)


def standardise_noise(
    log_std: Float[Array, "features dimensions"],
    features: Float[Array, " features"],
    noise: Float[Array, "features dimensions"],
) -> Float[Array, " dimensions"]:
    """Return the standard normal numbers that a policy with these features turns into the noise of the matrix W."""
    return features @ (jnp.exp(log_std) * noise) * jnp.exp(-log_deviation(log_std, features))
