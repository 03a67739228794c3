"""Corrections of single papers for answers of an older policy or a teacher, and for improbable tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.core.types import ForageError
from forage.ops.tokens.losses import Advantage, Mask, Scalar, Tokens, log_ratios
from forage.ops.tokens.masks import where_mask


def moving_bounds(
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    *,
    target: Scalar = 1.0,
    floor: tuple[float, float, float] = (0.6, 0.8, 0.05),
    ceiling: tuple[float, float, float] = (1.2, 2.0, 0.05),
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """Return BAPO's bounds of the ratio for this batch, and the balance that they reach.

        positive = sum of min(ratio, ceiling) A over tokens with A > 0
        negative = sum of max(ratio, floor) |A| over tokens with A < 0
        balance  = positive / negative

    `floor` and `ceiling` are a first value, a last value and a step. While the balance is below the target, the floor
    rises, below which tokens with A < 0 have no gradient; once it is at its last value, the ceiling rises, which lets
    more of the others through. The balance counts tokens without a gradient at their bound, so a rising floor alone
    does not raise it. Returns `(floor, ceiling, balance)`; the loss is `clipped` with `low = 1 - floor` and
    `high = ceiling - 1`, and with a ceiling of 3 in the source. Without negative tokens the balance is infinite.

    Source: Xi et al., 2025, "BAPO: Stabilizing Off-Policy Reinforcement Learning for LLMs via Balanced Policy
    Optimization with Adaptive Clipping", arXiv:2510.18927, as in the authors' `recipe/bapo/policy_loss.py`; target and
    steps are those of its `config.py`, first and last values the examples there. The paper's own pages could not be
    looked up.
    """
    for name, (first, last, step) in (("floor", floor), ("ceiling", ceiling)):
        if not (first <= last and step > 0):
            raise ForageError(f"The {name} of the moving bounds goes from {first} to {last} by {step}; it must rise.")
    # Without a gradient before the loop, through which none could flow backward.
    log_probability, advantage = jax.lax.stop_gradient((log_probability, advantage))
    ratio = jnp.exp(jnp.clip(log_ratios(log_probability, old_log_probability, mask), -20.0, 20.0))
    weighed = jnp.where(mask, advantage, 0.0)

    def balance(low: Array, high: Array) -> Array:
        positive = jnp.sum(jnp.minimum(ratio, high) * jnp.maximum(weighed, 0.0))
        negative = jnp.sum(jnp.maximum(ratio, low) * jnp.maximum(-weighed, 0.0))
        return jnp.where(negative > 0, positive / jnp.where(negative > 0, negative, 1.0), jnp.inf)

    def should_continue(carry: tuple[Array, Array, Array]) -> Array:
        low, high, now = carry
        return (now < target) & ((low < floor[1]) | (high < ceiling[1]))

    def turn(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        low, high, _ = carry
        rising = low < floor[1]
        high = jnp.where(rising, high, jnp.minimum(high + ceiling[2], ceiling[1]))
        low = jnp.where(rising, jnp.minimum(low + floor[2], floor[1]), low)
        return low, high, balance(low, high)

    low, high = (jnp.asarray(first, ratio.dtype) for first in (floor[0], ceiling[0]))
    return jax.lax.while_loop(should_continue, turn, (low, high, balance(low, high)))


def external(
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    *,
    focus: Scalar = 0.5,
) -> Float[Array, "sequence time"]:
    """Compute RL-PLUS's loss of tokens that another has written, such as solutions from a data set.

        other = (old + 1) / 2                       an estimate of the unknown writer's probability
        ratio = 2 pi / (old + other)                importance sampling from the mixture of both
        loss  = -ratio stop((1 - pi)^focus) A

    The mixture's denominator bounds the ratio by 4 / (1 + 3 old); the focus turns to tokens that are right and
    improbable. Tokens of the policy itself take `clipped`, and the mean and deviation of a group are those of its own
    answers.

    Source: Dong et al., 2025, "RL-PLUS: Countering Capability Boundary Collapse of LLMs in Reinforcement Learning with
    Hybrid-policy Optimization", arXiv:2508.00222, as in the authors' `rlplus_core_alg.py`, whose numbers these are; the
    paper's own pages could not be looked up.
    """
    probability = jnp.exp(where_mask(log_probability, mask))
    old = jax.lax.stop_gradient(jnp.exp(where_mask(old_log_probability, mask)))
    ratio = 2.0 * probability / (old + 0.5 * (old + 1.0))
    weight = jax.lax.stop_gradient((1.0 - probability) ** focus * advantage)
    return -ratio * weight


def teacher_loss(
    log_probability: Tokens, advantage: Advantage, mask: Mask, *, shape: Scalar = 0.1
) -> Float[Array, "sequence time"]:
    """Compute LUFFY's loss of tokens that a teacher has written, whose probabilities count as 1.

        loss = -f(pi) A,  f(pi) = pi / (pi + shape)

    The gradient of f by log pi, pi shape / (pi + shape)^2, is largest at pi = shape, so that improbable tokens are
    learned from which importance sampling with pi alone would pass over. There is no clip.

    Source: Yan et al., 2025, "Learning to Reason under Off-Policy Guidance", arXiv:2504.14945, as in `mix_core_alg.py`
    of AMPO's authors (arXiv:2510.02227), where it is `p_div_p_0.1`; the papers' own pages could not be looked up.
    """
    probability = jnp.exp(where_mask(log_probability, mask))
    return -probability / (probability + shape) * jax.lax.stop_gradient(advantage)


def proxy(logits: Float[Array, "*batch vocabulary"], share: Scalar = 0.02) -> Float[Array, "*batch vocabulary"]:
    """Return the logarithm of the proxy distribution: without tokens below `share` of the most probable one.

        q(token) = pi(token) / sum of those kept      where pi(token) >= share max pi, else 0 (the logarithm is -inf)

    Source: as `low_probability_loss`; 0.02 is the authors' setting for Qwen3-14B.
    """
    log_probability = jax.nn.log_softmax(logits)
    largest = jnp.max(log_probability, axis=-1, keepdims=True)
    among = log_probability >= largest + jnp.log(share)
    return jax.lax.stop_gradient(jax.nn.log_softmax(jnp.where(among, log_probability, -jnp.inf)))


def low_probability_loss(
    log_probability: Tokens,
    old_log_probability: Tokens,
    advantage: Advantage,
    mask: Mask,
    proxy_log_probability: Tokens,
    *,
    low: Scalar = 0.2,
    high: Scalar = 0.2,
    share: Scalar = 0.01,
    scale: Scalar = 1.0,
) -> Tokens:
    """Compute the clipped loss, with a shield around improbable tokens that may be valuable (Lp-Reg).

    Of the tokens with A < 0, take the `share` with the least log pi. Where the proxy q of such a token (`proxy`) gives
    it more than pi does, its loss is, without clipping,

        -ratio A + scale (q / pi - 1 - log(q / pi))

    which is k3 with q as the reference, whose gradient pulls pi up towards q. Tokens with q = 0 are noise and keep the
    clipped loss. As many are taken as the share of them rounded down; of equal ones all.

    Source: Huang et al., 2025, "Low-probability Tokens Sustain Exploration in Reinforcement Learning with Verifiable
    Reward", arXiv:2510.03222, as in the authors' `compute_policy_loss_lp_reg`, which takes none where it would be a
    single one, and whose clip is an argument; the paper's own pages could not be looked up.
    """
    advantage = jax.lax.stop_gradient(jnp.broadcast_to(advantage, mask.shape))
    log_ratio = log_ratios(log_probability, old_log_probability, mask)
    ratio = jnp.exp(log_ratio)
    plain = -jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - low, 1.0 + high) * advantage)

    own = where_mask(log_probability, mask)
    still = jax.lax.stop_gradient(own)
    bad = mask & (advantage < 0)
    ordered = jnp.sort(jnp.where(bad, still, jnp.inf).reshape(-1))
    count = jnp.floor(jnp.sum(bad) * share).astype(int)
    least = jnp.where(count > 0, ordered[jnp.maximum(count - 1, 0)], -jnp.inf)
    shielded = bad & (still <= least) & (still < proxy_log_probability)

    difference = jnp.where(shielded, jax.lax.stop_gradient(proxy_log_probability), own) - own
    # As in the source, the estimate lies between -10 and 10.
    pull = jnp.clip(jnp.expm1(jnp.clip(difference, -LARGEST_PULL, LARGEST_PULL)) - difference, -10.0, 10.0)
    return jnp.where(shielded, -ratio * advantage + scale * pull, plain)


LARGEST_PULL = 20.0
"""The largest logarithm of q / pi in the exponential of `low_probability_loss`, as in verl's estimate."""
