"""Losses of a group's answers that couple them: cross-entropy of log-ratios, and alignment to a reference."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Group = Float[Array, "group answer"]


def compared_scores(score: Group, there: Bool[Array, "group answer"]) -> Group:
    """Return the score of each answer minus the mean of the group's others; gradients flow into all of them."""
    kept = jnp.where(there, score, 0.0)
    total, count = kept.sum(1, keepdims=True), there.sum(1, keepdims=True)
    return jnp.where(there, kept - (total - kept) / jnp.maximum(count - 1, 1), 0.0)


def balance_classes(right: Bool[Array, "group answer"], there: Bool[Array, "group answer"]) -> Group:
    """Return weights that make right and wrong answers of a group count as much together: n / (2 of its kind).

    A group of one kind has the weight 1, and answers that are not `there` have 0.
    """
    right, wrong = right & there, ~right & there
    count = jnp.stack([right.sum(1, keepdims=True), wrong.sum(1, keepdims=True)])
    own = jnp.where(right, count[0], count[1])
    mixed = (count > 0).all(0)
    return jnp.where(there, jnp.where(mixed, there.sum(1, keepdims=True) / (2.0 * jnp.maximum(own, 1)), 1.0), 0.0)


def label_loss(
    log_ratio: Group, right: Bool[Array, "group answer"], there: Bool[Array, "group answer"], beta: float = 1.0
) -> Float[Array, ""]:
    """Compute the cross-entropy of labels of right and wrong answers, predicted from their log-ratios.

        s_i  = beta (log pi(answer) - log old(answer))            of whole answers
        p_i  = sigmoid(s_i - mean of the others' s)
        loss = mean of w_i (-log p_i) for right answers and w_i (-log (1 - p_i)) for wrong ones

    with w_i of `balance_classes`, over the answers that are `there`.

    Source: Li et al., 2025, "Implicit Actor Critic Coupling via a Supervised Learning Framework for RLVR" (PACS),
    arXiv:2509.02522, as in the authors' `src/pacs/pacs_core_algos.py` (ritzz-ai/PACS).
    """
    logit = compared_scores(beta * log_ratio, there)
    each = jnp.where(right, -jax.nn.log_sigmoid(logit), -jax.nn.log_sigmoid(-logit))
    return jnp.sum(balance_classes(right, there) * each) / jnp.maximum(there.sum(), 1)


def alignment_weights(
    reward: Group,
    reference: Float[Array, " group"],
    given: Bool[Array, " group"],
    imitation: float = 0.5,
    alignment: float = 0.6,
    epsilon: float = 1e-6,
) -> tuple[Group, Float[Array, " group"]]:
    """Return the factors of log-likelihoods, of each answer and of the reference, that GRAO goes up.

        A        = (r - mean) / (deviation + epsilon)             of the G answers and the reference together
        J        = mean_i A_i l_i + imitation A_y l_y + alignment mean_i A_i (l_i - l_y)
        factors  : (1 + alignment) A_i / G   of l_i,      imitation A_y - alignment mean_i A_i   of l_y

    l being the mean log-probability of an answer's tokens. The deviation divides by G + 1. Without a reference
    (`given` false) the answers are compared among themselves, and its factor is 0.

    Source: Wang et al., 2025, "Learning to Align, Aligning to Learn: A Unified Approach for Self-Optimized Alignment"
    (GRAO), arXiv:2508.07750, equations 3 and 4 and the section on training. Equation 4 sums over the answers alone,
    and the text below it says that the reference is one of the group, which is taken here.
    """
    whole = jnp.concatenate([reward, reference[:, None]], 1)
    there = jnp.concatenate([jnp.ones_like(reward, bool), given[:, None]], 1)
    mean = jnp.mean(whole, 1, keepdims=True, where=there)
    spread = jnp.std(whole, 1, keepdims=True, where=there)
    advantage = jnp.where(there, (whole - mean) / (spread + epsilon), 0.0)
    own, other = advantage[:, :-1], advantage[:, -1]
    factor = jnp.where(given, imitation * other - alignment * own.mean(1), 0.0)
    return (1 + alignment * given[:, None]) * own / reward.shape[1], factor
