"""Entropic optimal transport between two sets of points, by Sinkhorn's iteration.

With weights a_i and b_j that each sum to 1 and the cost C_ij of moving one unit from i to j, the plan P that is least
in

    sum_ij P_ij C_ij + blur sum_ij P_ij (log P_ij - 1),    sum_j P_ij = a_i,  sum_i P_ij = b_j

is P_ij = exp((f_i + g_j - C_ij) / blur), where f and g are fixed points of

    f_i = blur (log a_i - log sum_j exp((g_j - C_ij) / blur)),    and g likewise

(Cuturi, 2013, "Sinkhorn Distances: Lightspeed Computation of Optimal Transport", arXiv 1306.0895). It is computed in
logarithms, so a small blur does not overflow: towards 0 the plan becomes that of the linear program.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def cosine_cost(x: Float[Array, "row features"], y: Float[Array, "column features"]) -> Float[Array, "row column"]:
    """Compute 1 - cos of the angle between points: 0 where they point the same way, 2 at the most."""

    def unit(points: Float[Array, "point features"]) -> Float[Array, "point features"]:
        return points * jax.lax.rsqrt(jnp.sum(points**2, axis=-1, keepdims=True) + 1e-12)

    return 1.0 - unit(x) @ unit(y).T


def transport_plan(
    cost: Float[Array, "row column"],
    rows: Float[Array, " row"],
    columns: Float[Array, " column"],
    blur: float | Array = 0.01,
    iterations: int = 100,
    tolerance: float = 1e-9,
) -> Float[Array, "row column"]:
    """Return the plan P above; of weight 0 are points that are none, such as those that fill up an array.

    It stops after `iterations`, or where the sums of rows are off by no more than `tolerance` in all. Those of columns
    are right, as g is found last.
    """
    log_rows, log_columns = jnp.log(rows), jnp.log(columns)

    def plan(f: Float[Array, " row"], g: Float[Array, " column"]) -> Float[Array, "row column"]:
        return jnp.exp((f[:, None] + g[None] - cost) / blur)

    def turn(carry: tuple[Int[Array, ""], Array, Array, Array]) -> tuple[Int[Array, ""], Array, Array, Array]:
        count, _, g, _ = carry
        f = blur * (log_rows - jax.nn.logsumexp((g[None] - cost) / blur, axis=1))
        g = blur * (log_columns - jax.nn.logsumexp((f[:, None] - cost) / blur, axis=0))
        return count + 1, f, g, jnp.abs(plan(f, g).sum(1) - rows).sum()

    def should_continue(carry: tuple[Int[Array, ""], Array, Array, Array]) -> Array:
        return (carry[0] < iterations) & (carry[3] > tolerance)

    first = jnp.int32(0), jnp.zeros_like(rows), jnp.where(columns > 0, 0.0, -jnp.inf), jnp.float32(jnp.inf)
    _, f, g, _ = jax.lax.while_loop(should_continue, turn, first)
    return plan(f, g)


def costs_by_row(
    x: Float[Array, "row features"],
    y: Float[Array, "column features"],
    rows: Float[Array, " row"],
    columns: Float[Array, " column"],
    blur: float | Array = 0.01,
    iterations: int = 100,
) -> Float[Array, " row"]:
    """Compute sum_j P_ij C_ij: the transport cost of each point of the first set, by `cosine_cost`."""
    cost = cosine_cost(x, y)
    return jnp.sum(transport_plan(cost, rows, columns, blur, iterations) * cost, axis=1)
