"""Whole episodes of a rollout, and the return of each relative to others of its group.

An episode is known by the step it ends with: what belongs to an episode stands at that step, and at no other. Rollouts
begin with an episode. Rows are the steps of all environments in one line.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree


def whole_returns(
    reward: Float[Array, " time"], ended: Bool[Array, " time"], discount: float | Float[Array, ""]
) -> Float[Array, " time"]:
    """Return, at the step an episode ends with, its return G = sum_k discount^k r_k, and 0 at every other step."""

    def step(carry: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        total, weight = carry
        reward, ended = now
        total = total + weight * reward
        after = jnp.where(ended, 0.0, total), jnp.where(ended, 1.0, weight * discount)
        return after, jnp.where(ended, total, 0.0)

    return jax.lax.scan(step, (jnp.float32(0), jnp.float32(1)), (reward, ended))[1]


def spread_ends(at_end: Float[Array, " time"], ended: Bool[Array, " time"]) -> Float[Array, " time"]:
    """Give every step the value at the end of its episode; 0 for the steps of an unfinished one."""

    def step(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        value = jnp.where(now[1], now[0], later)
        return value, value

    return jax.lax.scan(step, jnp.float32(0), (at_end, ended), reverse=True)[1]


def finished(ended: Bool[Array, " time"]) -> Bool[Array, " time"]:
    """Tell of every step whether its episode ends within the rollout."""
    return jax.lax.cummax(ended[::-1].astype(jnp.int32))[::-1] > 0


def groups(marks: PyTree[Array], valid: Bool[Array, " row"]) -> Int[Array, " row"]:
    """Give numbers to the rows: valid ones with equal marks (leaves `row ...`) share one; others have none of them.

    Numbers lie below the number of rows.
    """
    count = valid.size
    columns = [column for leaf in jax.tree.leaves(marks) for column in leaf.reshape(count, -1).T]
    order = jnp.lexsort([*columns, ~valid])
    new = jnp.zeros(count - 1, bool)
    for column in [*columns, valid]:
        sorted_column = column[order]
        new |= sorted_column[1:] != sorted_column[:-1]
    number = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(new)])
    return jnp.zeros(count, jnp.int32).at[order].set(number.astype(jnp.int32))


def leave_one_out(
    returns: Float[Array, " row"], valid: Bool[Array, " row"], group: Int[Array, " row"]
) -> Float[Array, " row"]:
    """Compute each return less the mean of the other returns of its group; 0 where there are no others.

        A_i = G_i - sum_{j != i} G_j / (n - 1)

    The baseline does not depend on the episode itself, so the gradient stays unbiased. Only `valid` rows take part.

    Source: Kool, van Hoof, Welling (2019), "Buy 4 REINFORCE Samples, Get a Baseline for Free!"; Ahmadian et al. (2024),
    "Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human Feedback in LLMs", arXiv
    2402.14740.
    """
    number, total = sums(jnp.stack([jnp.ones_like(returns), returns], -1), valid, group)
    baseline = (total - returns) / jnp.maximum(number - 1, 1)
    return jnp.where(valid & (number > 1), returns - baseline, 0.0)


def group_relative(
    returns: Float[Array, " row"], valid: Bool[Array, " row"], group: Int[Array, " row"]
) -> Float[Array, " row"]:
    """Compute the distance of each return from the mean of its group, itself included, in standard deviations.

        A_i = (G_i - mean_j G_j) / (std_j G_j + 1e-6)

    It is 0 in a group whose returns are all equal. Only `valid` rows take part.

    Source: Shao et al. (2024), "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models",
    arXiv 2402.03300, section 4.1.2.
    """
    number, total = sums(jnp.stack([jnp.ones_like(returns), returns], -1), valid, group)
    centred = returns - total / jnp.maximum(number, 1)
    (squares,) = sums(centred[:, None] ** 2, valid, group)
    return jnp.where(valid, centred / (jnp.sqrt(squares / jnp.maximum(number, 1)) + 1e-6), 0.0)


def sums(
    values: Float[Array, "row columns"], valid: Bool[Array, " row"], group: Int[Array, " row"]
) -> Float[Array, "columns row"]:
    """Sum every column over the valid rows of a group, and return each row its group's sums."""
    valued = jnp.where(valid[:, None], values, 0.0)
    return jax.ops.segment_sum(valued, group, valid.size)[group].T


def alive(ended: Bool[Array, "time *batch"]) -> Bool[Array, "time *batch"]:
    """Tell of every step whether it is of the same episode as the first."""
    return jnp.concatenate([jnp.ones_like(ended[:1]), jnp.cumsum(ended[:-1], axis=0) == 0])
