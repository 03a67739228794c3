"""Regression of the policy on the optimal value of a prompt, as in A*-PO."""

from __future__ import annotations

import math

import jax
from jaxtyping import Array, Float

Group = Float[Array, "group answer"]
Scalar = float | Float[Array, ""]


def optimal_value(reward: Group, temperature: Scalar = 0.5) -> Float[Array, " group"]:
    """Estimate the optimal value of each prompt from answers of the reference policy.

        V = temperature log mean exp(r / temperature)

    Source: Brantley et al., 2025, "Accelerating RL for LLM Reasoning with Optimal Advantage Regression" (A*-PO),
    arXiv:2505.20686, as in TRL's paper index and `experimental/a2po`, whose default is 0.5; the paper's own pages
    could not be looked up.
    """
    count = reward.shape[-1]
    return temperature * (jax.nn.logsumexp(reward / temperature, axis=-1) - math.log(count))


def advantage_regression(
    log_probability: Float[Array, " sequence"],
    reference: Float[Array, " sequence"],
    reward: Float[Array, " sequence"],
    value: Float[Array, " sequence"],
    temperature: Scalar = 1e-3,
) -> Float[Array, " sequence"]:
    """Compute A*-PO's loss of each answer, log-probabilities being of whole answers.

        loss = (temperature (log pi - log reference) - (r - V))^2

    V is `optimal_value` of the prompt. No gradient flows into anything but log pi.

    Source: as `optimal_value`; 1e-3 is TRL's default.
    """
    target = jax.lax.stop_gradient(reward - value)
    return (temperature * (log_probability - jax.lax.stop_gradient(reference)) - target) ** 2
