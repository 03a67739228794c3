"""The effective rank of an answer's hidden states, and how it moves along the answer."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

SMALL = 1e-8


def effective_rank(hidden: Float[Array, "time width"], mask: Bool[Array, " time"]) -> Float[Array, ""]:
    """Compute the effective rank of the hidden states that count, less their mean.

        exp(-sum_k p_k log p_k),  p_k = singular value k / (sum of them + 1e-8)

    It is 0 for fewer than two states.

    Source: Roy and Vetterli, 2007, "The Effective Rank: A Measure of Effective Dimensionality", as in
    `compute_single_effective_rank` of hf618/VERL (`verl/trainer/metrics_utils.py`).
    """
    count = jnp.sum(mask)
    kept = jnp.where(mask[:, None], hidden.astype(jnp.float32), 0.0)
    centred = jnp.where(mask[:, None], kept - kept.sum(0) / jnp.maximum(count, 1), 0.0)
    values = jnp.linalg.svd(centred, compute_uv=False)
    share = values / (values.sum() + SMALL)
    return jnp.where(count < 2, 0.0, jnp.exp(-jnp.sum(share * jnp.log(share + SMALL))))


def rank_dynamics(hidden: Float[Array, "time width"], mask: Bool[Array, " time"], stride: int) -> Float[Array, "3"]:
    """Return the effective rank of an answer, its velocity and its acceleration. Padding stands behind.

    With m_j the effective rank of the first j stride + 1 states, for all j from 1 on that the answer has,

        velocity        mean over j > 1 of d_j = m_j - mean of m_1 ... m_(j-1)
        acceleration    mean over j > 2 of d_j - d_(j-1)

    0 where the answer has none of them.

    Source: Huang et al., 2025, "Beyond the Exploration-Exploitation Trade-off: A Hidden State Approach for LLM
    Reasoning in RLVR" (VERL), arXiv:2509.23808, as in the authors' `calculate_diffs_for_single_sample_optimized`
    (hf618/VERL), which looks at the last 512 states alone.
    """
    time, length = len(mask), mask.sum()
    ends = list(range(stride, time, stride))
    whole = effective_rank(hidden, mask)
    if len(ends) < 2:
        return jnp.stack([whole, jnp.zeros(()), jnp.zeros(())])
    each = jnp.stack([effective_rank(hidden[: end + 1], jnp.ones(end + 1, bool)) for end in ends])
    there = jnp.asarray(ends) < length
    before = jnp.cumsum(each)[:-1] / jnp.arange(1, len(ends))
    moved = each[1:] - before
    turned = moved[1:] - moved[:-1]
    means = [jnp.sum(jnp.where(on, x, 0.0)) / jnp.maximum(on.sum(), 1) for x, on in ((moved, there[1:]),)]
    if len(ends) > 2:
        means.append(jnp.sum(jnp.where(there[2:], turned, 0.0)) / jnp.maximum(there[2:].sum(), 1))
    return jnp.stack([whole, *means, *[jnp.zeros(())] * (2 - len(means))])


def rank_bonus(
    dynamics: Float[Array, "answer 3"], usual: Float[Array, "3"], gain: float | Float[Array, ""] = 2.0
) -> Float[Array, " answer"]:
    """Compute the bonus of each answer: for its rank where that accelerates, for its velocity where that slows down.

        x    = clip((value - usual) / (|usual| + 1e-8), -5, 5)       of rank, velocity and acceleration
        beta = sigmoid(gain x_acceleration)
        beta tanh(x_rank) + (1 - beta) tanh(x_velocity)

    `usual` are the three as they have been lately.

    Source: as `rank_dynamics` (`verl/trainer/reward_manager_versions.py`, PlanB).
    """
    apart = jnp.clip((dynamics - usual) / (jnp.abs(usual) + SMALL), -5.0, 5.0)
    explore = jax.nn.sigmoid(gain * apart[:, 2])
    return explore * jnp.tanh(apart[:, 0]) + (1 - explore) * jnp.tanh(apart[:, 1])
