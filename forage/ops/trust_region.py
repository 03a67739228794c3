"""Steps within a trust region: natural gradients by conjugate gradients, and a line search.

Schulman, Levine, Moritz, Jordan, Abbeel (2015), "Trust Region Policy Optimization", arXiv 1502.05477, appendix C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Bool, Float

Vector = Float[Array, " parameters"]
Objective = Callable[[Vector], tuple[Float[Array, ""], Float[Array, ""]]]


def natural_step(objective: Objective, weights: Vector, bound: Any, damping: Any, cg_steps: int) -> Vector:
    """Compute the longest step along the natural gradient whose divergence is the bound, as far as it is quadratic.

    `objective` gives L and the divergence D, which is 0 and least at `weights`. With g the gradient of L and H the
    second derivative of D plus `damping` on its diagonal it is sqrt(2 bound / x'Hx) x, where H x = g, solved by
    `cg_steps` steps of conjugate gradients.
    """
    gradient = jax.grad(lambda weights: objective(weights)[0])(weights)
    slope = jax.grad(lambda weights: objective(weights)[1])

    def product(vector: Vector) -> Vector:
        return jax.jvp(slope, (weights,), (vector,))[1] + damping * vector

    direction = cg(product, gradient, tol=0.0, atol=1e-5, maxiter=cg_steps)[0]
    return jnp.sqrt(2 * bound / jnp.maximum(direction @ product(direction), 1e-12)) * direction


def search_line(
    objective: Objective, weights: Vector, step: Vector, bound: Any, shrink: Any, most: int
) -> tuple[Vector, Bool[Array, ""]]:
    """Return the weights after the longest of `most` steps, each `shrink` times the one before, that is allowed.

    One is allowed that raises L and keeps D within the bound. Without one the weights stay, and the second result is
    false.
    """
    before = objective(weights)[0]

    def allowed(share: Float[Array, ""]) -> Bool[Array, ""]:
        now, divergence = objective(weights + share * step)
        return (divergence <= bound) & (now > before)

    def go_on(carry: tuple[Array, Array, Array]) -> Bool[Array, ""]:
        number, _, found = carry
        return ~found & (number < most)

    def shorten(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, share, _ = carry
        return number + 1, share * shrink, allowed(share * shrink)

    first = jnp.float32(1.0)
    _, share, found = jax.lax.while_loop(go_on, shorten, (jnp.int32(1), first, allowed(first)))
    return jnp.where(found, weights + share * step, weights), found
