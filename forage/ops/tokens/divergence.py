"""Divergences from a reference policy, estimated from the tokens that were sampled.

With x = log pi(token) - log reference(token) of a token that pi has drawn, the estimators of KL(pi || reference) are

    k1 = x                    unbiased, may be negative
    k2 = x^2 / 2              biased, never negative
    k3 = exp(-x) - 1 + x      unbiased, never negative

An estimate of the divergence is not an estimate of its gradient. Differentiated as they stand, as terms of a loss,

    E[grad k1] = 0                          it does nothing but add noise
    E[grad k2] = grad KL(pi || reference)   the right one
    E[grad k3] = grad KL(reference || pi)   that of the other direction

because the tokens' distribution moves, too, and automatic differentiation does not see that. As part of the reward,
where no gradient flows and the score function multiplies it, k1 is right and the others are not.

Source: Schulman, 2020, "Approximating KL Divergence", http://joschu.net/blog/kl-approx.html, for the estimators; the
gradients are derived in the tests by summing over all tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.core.types import ForageError
from forage.ops.tokens.masks import check_name, sequence_sum, where_mask

ESTIMATORS = ("k1", "k2", "k3")
"""The estimators above."""

GRADIENTS = ("own", "reverse", "weighted")
"""The gradients that `kl_loss` offers."""


def kl_estimate(log_ratio: Float[Array, "*shape"], estimator: str = "k3") -> Float[Array, "*shape"]:
    """Estimate KL(pi || reference) at each token, `log_ratio` being x above."""
    check_name("estimator of the divergence", estimator, ESTIMATORS)
    if estimator == "k1":
        return log_ratio
    if estimator == "k2":
        return log_ratio**2 / 2
    return jnp.expm1(-log_ratio) + log_ratio


def kl_loss(
    log_probability: Float[Array, "sequence time"],
    reference: Float[Array, "sequence time"],
    mask: Bool[Array, "sequence time"],
    estimator: str = "k3",
    gradient: str = "own",
    old_log_probability: Float[Array, "sequence time"] | None = None,
) -> Float[Array, "sequence time"]:
    """Compute the divergence of each token as a term of the loss, with one of these gradients.

        own        that of the estimator as it stands: of k2 x grad log pi, in expectation that of KL(pi || reference);
                   of k3 (1 - exp(-x)) grad log pi, that of KL(reference || pi), which is GRPO's penalty
        reverse    x grad log pi, whatever the estimator, whose value it keeps
        weighted   that of ratio * estimator, ratio = pi / old, and that is its value, too. With k1 and k3 it is
                   unbiased, value and gradient, also after several updates on the same tokens

    k1 by itself is refused: its gradient, grad log pi, has mean 0 and only adds noise.

    `reference` may be a frozen policy or a teacher: distillation on the student's own answers is this with a teacher.

    Sources: Shao et al., 2024, arXiv:2402.03300 (k3 in the loss), and DeepSeek-AI, 2025, arXiv:2512.02556 (weighted),
    as in TRL 1.16's `grpo_trainer.py` and paper index; the papers' own pages could not be looked up.
    """
    check_name("gradient of the divergence", gradient, GRADIENTS)
    if (gradient == "weighted") != (old_log_probability is not None):
        raise ForageError("The gradient 'weighted' needs the old log-probabilities, and no other one takes them.")
    if gradient == "own" and estimator == "k1":
        raise ForageError(
            "In a loss the divergence's estimator k1 only adds noise, as the mean of its gradient is 0; take k2 or k3."
        )
    log_probability = where_mask(log_probability, mask)
    log_ratio = log_probability - where_mask(reference, mask)
    value = kl_estimate(log_ratio, estimator)
    if old_log_probability is not None:
        return jnp.exp(log_probability - where_mask(old_log_probability, mask)) * value
    if gradient == "own":
        return value
    # The value of the estimator, and the gradient of k2.
    right = kl_estimate(log_ratio, "k2")
    return jax.lax.stop_gradient(value - right) + right


def kl_in_reward(
    reward: Float[Array, " sequence"],
    log_probability: Float[Array, "sequence time"],
    reference: Float[Array, "sequence time"],
    mask: Bool[Array, "sequence time"],
    scale: float = 0.05,
) -> Float[Array, " sequence"]:
    """Return reward - scale * sum_t (log pi - log reference), without a gradient: k1, which is right there.

    The advantage is made of it, and the score function does the rest. `scale` is the KL penalty's coefficient; the
    default is that of RLOO in TRL.

    Source: Ahmadian et al., 2024, "Back to Basics", arXiv:2402.14740, as in TRL 1.16's `rloo_trainer.py`.
    """
    return jax.lax.stop_gradient(reward - scale * sequence_sum(log_probability - reference, mask))
