"""Credit for tokens and turns that is learned from outcomes alone: by a token reward model, and by preferred runs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.ops.tokens.masks import token_mean

Scalar = float | Float[Array, ""]


def token_weights(
    score: Float[Array, "row new"], mask: Bool[Array, "row new"], right: Bool[Array, " row"], threshold: Scalar = 0.5
) -> Float[Array, "row new"]:
    """Compute weights of tokens from the scores of a token reward model.

        p_t = sigmoid(mean of the scores up to token t)         that the answer is right, by what was said so far
        w_t = clip((q_t - threshold) / (1 - threshold), 0, 1)   q = p in right answers, 1 - p in wrong ones

    Source: Lyu et al., 2025, "Exploring the Limit of Outcome Reward for Learning Mathematical Reasoning" (OREAL),
    arXiv:2502.06781, as `threshold_rescale` in the authors' `train_oreal.py` (InternLM/OREAL).
    """
    count = jnp.maximum(jnp.cumsum(mask, axis=1), 1)
    chance = jax.nn.sigmoid(jnp.cumsum(jnp.where(mask, score, 0.0), axis=1) / count)
    agreed = jnp.where(right[:, None], chance, 1 - chance)
    return jax.lax.stop_gradient(jnp.where(mask, jnp.clip((agreed - threshold) / (1 - threshold), 0, 1), 0.0))


def pick_pairs(right: Bool[Array, "group answer"]) -> Bool[Array, "group answer"]:
    """Return the mask of the first right and the first wrong answer of each group that has both."""
    both = right.any(1, keepdims=True) & ~right.all(1, keepdims=True)
    first = lambda x: x & (jnp.cumsum(x, axis=1) == 1)  # noqa: E731
    return both & (first(right) | first(~right))


def outcome_loss(
    log_probability: Float[Array, "row new"],
    advantage: Float[Array, "row 1"],
    weight: Float[Array, "row new"],
    mask: Bool[Array, "row new"],
    right: Bool[Array, " row"],
    negative: Scalar = 0.5,
) -> Float[Array, ""]:
    """Compute OREAL's loss: right answers are cloned, wrong ones unlearned, each by its advantage and its tokens.

        -sum over tokens of right answers of w A log pi / their number
        - negative (the same sum over tokens of wrong answers / their number)

    Source: as `token_weights`.
    """
    each = -jax.lax.stop_gradient(advantage * weight) * jnp.where(mask, log_probability, 0.0)
    cloned, unlearned = (token_mean(each, mask & on[:, None]) for on in (right, ~right))
    return cloned + negative * unlearned


def outcome_entropy(
    score: Float[Array, "row new"],
    mask: Bool[Array, "row new"],
    right: Bool[Array, " row"],
    counts: Bool[Array, " row"],
) -> Float[Array, ""]:
    """Compute the cross-entropy of labels of answers, predicted by the mean score of their tokens.

    Source: as `token_weights`.
    """
    logit = jnp.sum(jnp.where(mask, score, 0.0), 1) / jnp.maximum(mask.sum(1), 1)
    each = jnp.where(right, -jax.nn.log_sigmoid(logit), -jax.nn.log_sigmoid(-logit))
    return jnp.sum(jnp.where(counts, each, 0.0)) / jnp.maximum(counts.sum(), 1)


def paired_preference(
    value: Float[Array, "group run"], right: Bool[Array, "group run"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Compute the preference loss of successful runs over failed ones of their group, and how many pairs it is of.

        mean over pairs of -log sigmoid(value of the success - value of the failure)

    Each success is paired with the failure of the same number, in their order, as long as there are both.

    Source: Liu et al., 2025, "Agentic Reinforcement Learning with Implicit Step Rewards" (iStar), arXiv:2509.19199, as
    `compute_eto_loss_rm` in the authors' program (Tongyi-ConvAI/Qwen-Character).
    """
    number = jnp.where(right, jnp.cumsum(right, 1), jnp.cumsum(~right, 1))
    pair = right[:, :, None] & ~right[:, None] & (number[:, :, None] == number[:, None])
    each = -jax.nn.log_sigmoid(value[:, :, None] - value[:, None])
    count = pair.sum()
    return jnp.sum(jnp.where(pair, each, 0.0)) / jnp.maximum(count, 1), count.astype(jnp.float32)


def step_advantage(
    reward: Float[Array, "group run turn"], there: Bool[Array, "group run turn"]
) -> Float[Array, "group run turn"]:
    """Compute the reward of each turn minus the mean of all other turns of its group, 0 for turns that are none.

    Source: as `paired_preference` (`step_rloo_reward`).
    """
    kept = jnp.where(there, reward, 0.0)
    total, count = kept.sum((1, 2), keepdims=True), there.sum((1, 2), keepdims=True)
    return jax.lax.stop_gradient(jnp.where(there, kept - (total - kept) / jnp.maximum(count - 1, 1), 0.0))
