"""Losses of tokens, each a function of the advantages and log-probabilities of the written tokens.

With ratio = pi(token) / old(token), `old` being the policy that the answers were scored with, each loss below is one
number a token; `masks.aggregate` makes one of them all. All take

    log_probability, old_log_probability, advantage, mask

and their own numbers as keywords. `policy_loss` finds them by name and aggregates. Nothing flows into advantage or old.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.core.types import ForageError
from forage.ops.tokens.masks import aggregate, check_name, sequence_mean, sequence_sum, where_mask

Tokens = Float[Array, "sequence time"]
Advantage = Float[Array, "sequence #time"]
Mask = Bool[Array, "sequence time"]
Scalar = float | Float[Array, ""]

LARGEST = 20.0
"""The largest logarithm of a ratio of whole sequences that counts, and that of a token in `vespo`."""


def log_ratios(log_probability: Tokens, old_log_probability: Tokens, mask: Mask) -> Tokens:
    """Return log pi - log old at the tokens that count, and 0 elsewhere."""
    return where_mask(log_probability, mask) - jax.lax.stop_gradient(where_mask(old_log_probability, mask))


def reinforce(log_probability: Tokens, old_log_probability: Tokens, advantage: Advantage, mask: Mask) -> Tokens:
    """Compute -A log pi: the score function, for answers that this very policy has drawn.

    Source: Williams, 1992, "Simple Statistical Gradient-Following Algorithms", Machine Learning 8.
    """
    return -jax.lax.stop_gradient(advantage) * where_mask(log_probability, mask)


def unclipped_loss(log_probability: Tokens, old_log_probability: Tokens, advantage: Advantage, mask: Mask) -> Tokens:
    """Compute -ratio A: importance sampling at each token without any bound.

    Source: Schulman et al., 2017, "Proximal Policy Optimization Algorithms", arXiv:1707.06347, equation 6.
    """
    return -jnp.exp(log_ratios(log_probability, old_log_probability, mask)) * jax.lax.stop_gradient(advantage)


def clipped_loss(
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    *,
    low: Scalar = 0.2,
    high: Scalar = 0.2,
    ceiling: Scalar = math.inf,
) -> Tokens:
    """Compute PPO's clipped loss, with a bound on either side, and a third one where the advantage is negative.

        loss = -min(ratio A, clip(ratio, 1 - low, 1 + high) A)                   where A >= 0
        loss = -max(min(ratio A, clip(ratio, 1 - low, 1 + high) A), ceiling A)   where A < 0

    `high` 0.28 beside `low` 0.2 is DAPO's clip-higher. Without a ceiling a token with A < 0 whose ratio has become
    large has an unbounded loss; `ceiling` above 1 + high bounds it (dual clip; 3 is verl's, and TRL's `delta` is the
    same).

    Sources: Schulman et al., 2017, arXiv:1707.06347, equation 7; Yu et al., 2025, "DAPO", arXiv:2503.14476, section 4.1
    for the numbers (as TRL's paper index quotes it); Ye et al., 2020, "Mastering Complex Control in MOBA Games with
    Deep Reinforcement Learning", arXiv:1912.09729 (dual clip, whose pages could not be looked up).
    """
    advantage = jax.lax.stop_gradient(advantage)
    ratio = jnp.exp(log_ratios(log_probability, old_log_probability, mask))
    return _clip(ratio, advantage, low, high, ceiling)


def _clip(ratio: Advantage, advantage: Advantage, low: Scalar, high: Scalar, ceiling: Scalar) -> Advantage:
    """Compute the formula of `clipped`. The ceiling bounds the ratio, so that infinity times 0 does not arise."""
    bounded = jnp.where(advantage < 0, jnp.minimum(ratio, ceiling), ratio)
    return -jnp.minimum(bounded * advantage, jnp.clip(ratio, 1.0 - low, 1.0 + high) * advantage)


def clipped_sequence(
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    *,
    low: Scalar = 0.2,
    high: Scalar = 0.2,
) -> Tokens:
    """Compute the clipped loss with the ratio of whole answers, exp(sum_t log ratio_t), at every token of each.

    An answer is one action, as RLOO has it; aggregate by `sequence-mean`.

    Source: Ahmadian et al., 2024, "Back to Basics", arXiv:2402.14740, as in TRL 1.16's `rloo_trainer.py`.
    """
    log_ratio = jnp.minimum(sequence_sum(log_ratios(log_probability, old_log_probability, mask), mask), LARGEST)[
        :, None
    ]
    loss = _clip(jnp.exp(log_ratio), jax.lax.stop_gradient(advantage), low, high, math.inf)
    return jnp.broadcast_to(loss, log_probability.shape)


def gspo(
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    *,
    low: Scalar = 3e-4,
    high: Scalar = 4e-4,
) -> Tokens:
    """Compute the clipped loss with one ratio a sequence, the geometric mean of its tokens' ratios.

        ratio_i = exp(1/L_i sum_t log ratio_it)

    at every token of it; aggregate by `sequence-mean`.

    Source: Zheng et al., 2025, "Group Sequence Policy Optimization", arXiv:2507.18071, section 5.1 for the bounds, as
    TRL's paper index quotes it; the formula as in TRL 1.16's `grpo_trainer.py`
    (`importance_sampling_level="sequence"`).
    """
    log_ratio = sequence_mean(log_ratios(log_probability, old_log_probability, mask), mask)[:, None]
    loss = _clip(jnp.exp(log_ratio), jax.lax.stop_gradient(advantage), low, high, math.inf)
    return jnp.broadcast_to(loss, log_probability.shape)


def gspo_token(
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    *,
    low: Scalar = 3e-4,
    high: Scalar = 4e-4,
) -> Tokens:
    """Compute GSPO's loss in the form that allows an advantage of each token.

        ratio_it = stop(ratio_i) pi_it / stop(pi_it)

    Its value is the sequence's, its gradient the token's. With one advantage a sequence it is GSPO, value and gradient.

    Source: Zheng et al., 2025, arXiv:2507.18071, as in `experimental/gspo_token` of TRL 1.10's
    repository, which 1.16 has no more.
    """
    log_ratio = log_ratios(log_probability, old_log_probability, mask)
    own = where_mask(log_probability, mask)
    whole = jax.lax.stop_gradient(sequence_mean(log_ratio, mask))[:, None]
    ratio = jnp.exp(whole + own - jax.lax.stop_gradient(own))
    return _clip(ratio, jax.lax.stop_gradient(advantage), low, high, math.inf)


def gmpo(
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    *,
    low: Scalar = 0.4,
    high: Scalar = 0.4,
) -> Tokens:
    """Compute the loss with the geometric mean of clipped ratios: clipped at each token, then averaged.

        ratio_i = exp(1/L_i sum_t bounded_it)
        bounded = min(log ratio, clip(log ratio, -low, high)) where A >= 0, the max of both where A < 0
        loss    = -ratio_i A_i

    Bounds are of logarithms. The advantage is one number a sequence; aggregate by `sequence-mean`.

    Source: Zhao et al., 2025, "Geometric-Mean Policy Optimization", arXiv:2507.20673, section 4 for the bounds, as
    TRL's paper index quotes it; as in TRL 1.16's `experimental/gmpo`.
    """
    if advantage.shape[-1] != 1:
        raise ForageError("The loss 'gmpo' needs one advantage for each answer, of shape sequence 1.")
    advantage = jax.lax.stop_gradient(advantage)
    log_ratio = log_ratios(log_probability, old_log_probability, mask)
    inside = jnp.clip(log_ratio, -low, high)
    bounded = jnp.where(advantage >= 0, jnp.minimum(log_ratio, inside), jnp.maximum(log_ratio, inside))
    loss = -jnp.exp(sequence_mean(bounded, mask))[:, None] * advantage
    return jnp.broadcast_to(loss, log_probability.shape)


def cispo(
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    *,
    floor: Scalar = 0.0,
    ceiling: Scalar = 5.0,
) -> Tokens:
    """Compute the score function weighted by a clipped ratio without a gradient.

        loss = -stop(clip(ratio, floor, ceiling)) A log pi

    Unlike PPO's clip, it takes the gradient of no token away.

    Source: MiniMax, 2025, "MiniMax-M1", arXiv:2506.13585, as in TRL 1.16's `grpo_trainer.py`, whose `epsilon_high` is
    the ceiling; 5 is that of its recipe of ScaleRL (arXiv:2510.13786). The papers' own pages could not be looked up.
    """
    ratio = jnp.exp(log_ratios(log_probability, old_log_probability, mask))
    weight = jax.lax.stop_gradient(jnp.clip(ratio, floor, ceiling) * advantage)
    return -weight * where_mask(log_probability, mask)


def sapo(
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    *,
    positive: Scalar = 1.0,
    negative: Scalar = 1.05,
) -> Tokens:
    """Compute the loss with a soft gate in the place of clipping.

        loss = -4 / tau sigmoid(tau (ratio - 1)) A      tau = positive where A > 0, negative elsewhere

    Its slope in the ratio is 1 at 1 and falls off to both sides, faster for larger tau.

    Source: Gao et al., 2025, "Soft Adaptive Policy Optimization", arXiv:2511.20347, as in TRL 1.16's `grpo_trainer.py`,
    whose defaults these are; the paper's own pages could not be looked up.
    """
    advantage = jax.lax.stop_gradient(advantage)
    ratio = jnp.exp(log_ratios(log_probability, old_log_probability, mask))
    temperature = jnp.where(advantage > 0, positive, negative)
    return -jax.nn.sigmoid(temperature * (ratio - 1.0)) * 4.0 / temperature * advantage


def vespo(
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    *,
    positive_power: Scalar = 2.0,
    positive_rate: Scalar = 3.0,
    negative_power: Scalar = 3.0,
    negative_rate: Scalar = 2.0,
) -> Tokens:
    """Compute the score function weighted by a smooth kernel of the whole sequence's ratio.

        w    = exp(sum_t log ratio_t)
        phi  = w^power exp(rate (1 - w))       1 where w is 1
        loss = -stop(phi) A log pi

    with power and rate by the sign of the advantage. Logarithms are bounded as in the source.

    Source: 2026, "VESPO: Variational Sequence-Level Soft Policy Optimization", arXiv:2602.10693, as in TRL 1.16's
    `grpo_trainer.py`, whose defaults these are; the paper's own pages could not be looked up.
    """
    log_ratio = jnp.clip(log_ratios(log_probability, old_log_probability, mask), -LARGEST, LARGEST)
    logarithm = jnp.clip(sequence_sum(log_ratio, mask), math.log(1e-8), LARGEST)[:, None]
    power = jnp.where(advantage >= 0, positive_power, negative_power)
    rate = jnp.where(advantage >= 0, positive_rate, negative_rate)
    kernel = jnp.exp(rate + power * logarithm - rate * jnp.exp(logarithm))
    return -jax.lax.stop_gradient(kernel * advantage) * where_mask(log_probability, mask)


LOSSES: dict[str, Callable[..., Tokens]] = {
    "reinforce": reinforce,
    "unclipped": unclipped_loss,
    "clip": clipped_loss,
    "clip-sequence": clipped_sequence,
    "gspo": gspo,
    "gspo-token": gspo_token,
    "gmpo": gmpo,
    "cispo": cispo,
    "sapo": sapo,
    "vespo": vespo,
}
"""The losses by name."""


def policy_loss(
    name: str,
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    aggregation: str = "token-mean",
    length: int | None = None,
    weight: Float[Array, "sequence #time"] | None = None,
    **numbers: Any,
) -> Float[Array, ""]:
    """Return the loss of that name over all tokens, each multiplied by its weight.

    `weight` may correct for a sampler that is not the policy (`off_policy.sampler_weight`), or drop groups of one
    reward (`advantages.group_weight`). Other keywords go to the loss.
    """
    check_name("loss of tokens", name, LOSSES)
    loss = LOSSES[name](log_probability, old_log_probability, advantage, mask, **numbers)
    if weight is not None:
        loss = loss * jax.lax.stop_gradient(weight)
    return aggregate(loss, mask, aggregation, length)


def high_entropy(entropy: Tokens, mask: Mask, share: float = 0.2) -> Mask:
    """Return the mask of tokens with an entropy at or above the quantile `1 - share` of all tokens that count.

    Learning from these alone is a loss with this mask. Linear interpolation between order statistics, as
    `numpy.quantile`.

    Source: Wang et al., 2025, "Beyond the 80/20 Rule", arXiv:2506.01939, as in TRL 1.16's `grpo_trainer.py`; the
    paper's own pages could not be looked up.
    """
    if not 0 < share <= 1:
        raise ForageError(f"The share of tokens of high entropy is {share}; it lies above 0 and is at most 1.")
    bound = jnp.nanquantile(jnp.where(mask, entropy, jnp.nan), 1.0 - share)
    return mask & (entropy >= bound)
