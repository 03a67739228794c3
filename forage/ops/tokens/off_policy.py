"""Corrections for answers that another distribution has drawn: another sampler, an older policy, a teacher."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.ops.tokens.losses import Mask, Scalar, Tokens, log_ratios
from forage.ops.tokens.masks import check_name, sequence_mean, sequence_sum, where_mask

CORRECTIONS = ("token-truncate", "token-mask", "sequence-truncate", "sequence-mask")
"""The rules of `sampler_weight`."""


def sampler_weight(
    old_log_probability: Tokens,
    sampler_log_probability: Tokens,
    mask: Mask,
    rule: str = "token-truncate",
    floor: Scalar = 0.0,
    ceiling: Scalar = 2.0,
) -> Float[Array, "sequence time"]:
    """Return the weight of each token's loss where the sampler's probabilities are not those of the policy.

        r = old / sampler of the token, or of the whole sequence
        truncate   min(max(r, floor), ceiling)
        mask       r where floor <= r <= ceiling, else 0

    Sources: Yao et al., 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training",
    fengyao.notion.site/off-policy-rl (truncate), and arXiv:2510.18855 (mask), as in TRL 1.16's `grpo_trainer.py` and
    paper index, from which the ceiling of 2 is; the sources' own pages could not be looked up.
    """
    check_name("correction of the sampler", rule, CORRECTIONS)
    logarithm = where_mask(old_log_probability, mask) - where_mask(sampler_log_probability, mask)
    level, kind = rule.split("-")
    if level == "sequence":
        logarithm = jnp.broadcast_to(sequence_sum(logarithm, mask)[:, None], logarithm.shape)
    ratio = jnp.exp(logarithm)
    if kind == "truncate":
        weight = jnp.clip(ratio, floor, ceiling)
    else:
        weight = jnp.where((ratio >= floor) & (ratio <= ceiling), ratio, 0.0)
    return jax.lax.stop_gradient(weight)


def near_sequences(
    log_probability: Tokens,
    sampler_log_probability: Tokens,
    advantage: Float[Array, " sequence"],
    mask: Mask,
    bound: Scalar,
) -> Float[Array, "sequence 1"]:
    """Return 1 for sequences to learn from, and 0 for bad sequences far from the current policy.

        1 where A >= 0, or where the mean over tokens of log sampler - log pi is at most `bound`

    Source: DeepSeek-AI, 2025, "DeepSeek-V3.2", arXiv:2512.02556, as in TRL 1.16's `get_off_policy_mask`; the report's
    own pages could not be looked up.
    """
    divergence = sequence_mean(-log_ratios(log_probability, sampler_log_probability, mask), mask)
    near = (advantage >= 0) | (divergence <= bound)
    return jax.lax.stop_gradient(near.astype(log_probability.dtype))[:, None]
