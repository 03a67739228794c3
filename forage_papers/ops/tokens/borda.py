"""Acquisition of comparisons: how much more an answer may win against the first policy's than it surely does."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Scalar = float | Float[Array, ""]


class Guess(NamedTuple):
    """Log-probabilities of whole answers under a policy that is not sure of itself, and under the first policy."""

    mean: Float[Array, "prompt answer"]
    deviation: Float[Array, "prompt answer"]
    first: Float[Array, "prompt answer"]


def borda_acquisition(
    own: Guess, other: Guess, optimism: Scalar = 2.0, beta: Scalar = 0.1
) -> tuple[Float[Array, " prompt"], Int[Array, " prompt"]]:
    """Return the worth of comparing answers to each prompt, and the answer to compare.

    With u and l the upper and lower bounds mean +- optimism deviation, the chance that answer a beats a',

        optimistic     sigmoid(beta ((u(a) - first(a)) - (l(a') - first(a'))))
        pessimistic    the same with u and l changed about

    is averaged over the first policy's answers a' (a Borda score). The answer is the one of the greatest optimistic
    score, the worth the difference of the greatest optimistic and the greatest pessimistic score.

    Source: Mehta et al., 2023, "Sample Efficient Preference Alignment in LLMs via Active Exploration",
    arXiv:2312.00267, as in the authors' `select_borda_elements` (belakaria/active-llm-alignment).
    """

    def score(sign: int) -> Float[Array, "prompt answer"]:
        here = own.mean + sign * optimism * own.deviation - own.first
        there = other.mean - sign * optimism * other.deviation - other.first
        return jax.nn.sigmoid(beta * (here[:, :, None] - there[:, None])).mean(2)

    upper = score(1)
    return upper.max(1) - score(-1).max(1), jnp.argmax(upper, 1)
