"""Losses of preferences: pairs of a chosen and a rejected answer, or answers that are wanted or not.

Log-probabilities are of whole answers, `masks.sequence_sum` of their tokens unless it says means. With h = (log
pi(chosen)
- log reference(chosen)) - (log pi(rejected) - log reference(rejected)), all but SimPO and CPO are functions of h, or of
its parts. Losses are one number a pair; take their mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.core.types import ForageError
from forage.ops.tokens.masks import check_name

Pairs = Float[Array, " pair"]
Scalar = float | Float[Array, ""]


def _margin(chosen: Pairs, rejected: Pairs, reference_chosen: Pairs, reference_rejected: Pairs) -> Pairs:
    """Compute h above, without a gradient into the reference."""
    return chosen - rejected - jax.lax.stop_gradient(reference_chosen - reference_rejected)


def dpo(
    chosen: Pairs,
    rejected: Pairs,
    reference_chosen: Pairs,
    reference_rejected: Pairs,
    beta: Scalar = 0.1,
    smoothing: Scalar = 0.0,
) -> Pairs:
    """Compute -(1 - smoothing) log sigmoid(beta h) - smoothing log sigmoid(-beta h).

    `smoothing` is the probability that a label is the wrong way round (conservative DPO).

    Source: Rafailov et al., 2023, "Direct Preference Optimization", arXiv:2305.18290, as in TRL 1.16's `dpo_trainer.py`
    (`sigmoid`); the paper's own pages could not be looked up.
    """
    margin = beta * _margin(chosen, rejected, reference_chosen, reference_rejected)
    return -(1.0 - smoothing) * jax.nn.log_sigmoid(margin) - smoothing * jax.nn.log_sigmoid(-margin)


def robust_dpo(
    chosen: Pairs,
    rejected: Pairs,
    reference_chosen: Pairs,
    reference_rejected: Pairs,
    beta: Scalar = 0.1,
    smoothing: Scalar = 0.1,
) -> Pairs:
    """Compute an unbiased estimate of DPO's loss with true labels, from labels of which some are the wrong way round.

        (-(1 - smoothing) log sigmoid(beta h) + smoothing log sigmoid(-beta h)) / (1 - 2 smoothing)

    Source: Chowdhury, Kini, Natarajan, 2024, "Provably Robust DPO", arXiv:2403.00409, as in TRL 1.16's `dpo_trainer.py`
    (`robust`); the paper's own pages could not be looked up.
    """
    if isinstance(smoothing, float | int) and not 0 <= smoothing < 0.5:
        raise ForageError(f"The share of wrong labels is {smoothing}; it lies from 0 to below 0.5.")
    margin = beta * _margin(chosen, rejected, reference_chosen, reference_rejected)
    clean, turned = -(1.0 - smoothing) * jax.nn.log_sigmoid(margin), -smoothing * jax.nn.log_sigmoid(-margin)
    return (clean - turned) / (1.0 - 2.0 * smoothing)


def ipo(
    chosen: Pairs, rejected: Pairs, reference_chosen: Pairs, reference_rejected: Pairs, beta: Scalar = 0.1
) -> Pairs:
    """Compute (h - 1 / (2 beta))^2, with log-probabilities that are means over tokens.

    Source: Azar et al., 2023, "A General Theoretical Paradigm to Understand Learning from Human Preferences",
    arXiv:2310.12036, equation 17 as TRL 1.16's `dpo_trainer.py` quotes it, which takes means after asking the authors.
    """
    return (_margin(chosen, rejected, reference_chosen, reference_rejected) - 1.0 / (2.0 * beta)) ** 2


def hinge(
    chosen: Pairs, rejected: Pairs, reference_chosen: Pairs, reference_rejected: Pairs, beta: Scalar = 0.1
) -> Pairs:
    """Compute max(0, 1 - beta h).

    Source: Zhao et al., 2023, "SLiC-HF", arXiv:2305.10425, with the reference as in TRL 1.16's `dpo_trainer.py`
    (`hinge`); the paper's own pages could not be looked up.
    """
    return jax.nn.relu(1.0 - beta * _margin(chosen, rejected, reference_chosen, reference_rejected))


def simpo(chosen: Pairs, rejected: Pairs, beta: Scalar = 2.5, margin: Scalar = 1.375) -> Pairs:
    """Compute -log sigmoid(beta (log pi(chosen) - log pi(rejected)) - margin), with means over tokens and no reference.

    Source: Meng, Xia, Chen, 2024, "SimPO", arXiv:2405.14734, appendix B for both numbers as TRL's paper index quotes
    it; as in TRL 1.16's `experimental/cpo` (`simpo`).
    """
    return -jax.nn.log_sigmoid(beta * (chosen - rejected) - margin)


def cpo(chosen: Pairs, rejected: Pairs, likelihood: Float[Array, ""], beta: Scalar = 0.1, scale: Scalar = 1.0) -> Pairs:
    """Compute -log sigmoid(beta (log pi(chosen) - log pi(rejected))) + scale likelihood.

    `likelihood` is the cross-entropy of the chosen answers (`supervised.cross_entropy`, mean over tokens).

    Source: Xu et al., 2024, "Contrastive Preference Optimization", arXiv:2401.08417, sections 3 and 4.2 for both
    numbers as TRL's paper index quotes it; as in TRL 1.16's `experimental/cpo` (`sigmoid`).
    """
    return -jax.nn.log_sigmoid(beta * (chosen - rejected)) + scale * likelihood


def orpo(
    chosen: Pairs, rejected: Pairs, likelihood: Float[Array, ""], beta: Scalar = 0.1, scale: Scalar = 1.0
) -> Pairs:
    """Compute scale likelihood - beta log sigmoid(log odds(chosen) - log odds(rejected)), without a reference.

    Log-probabilities are means over tokens, and odds(p) = p / (1 - p). `likelihood` is the cross-entropy of the chosen
    texts, prompt and answer, as a mean over tokens.

    Source: Hong, Lee, Thorne, 2024, "ORPO: Monolithic Preference Optimization without Reference Model",
    arXiv:2403.07691, equations 4 and 7 as TRL's `experimental/orpo` quotes them, whose beta this is.
    """
    odds = (chosen - rejected) - (log_complement(chosen) - log_complement(rejected))
    return scale * likelihood - beta * jax.nn.log_sigmoid(odds)


def log_complement(log_probability: Pairs) -> Pairs:
    """Compute log(1 - p) from log p, exactly near 0 and near 1."""
    near_one = log_probability > -0.6931472
    small = jnp.where(near_one, log_probability, -1.0)
    large = jnp.where(near_one, -1.0, log_probability)
    return jnp.where(near_one, jnp.log(-jnp.expm1(small)), jnp.log1p(-jnp.exp(large)))


def xpo(
    chosen: Pairs,
    rejected: Pairs,
    reference_chosen: Pairs,
    reference_rejected: Pairs,
    drawn: Pairs,
    beta: Scalar = 0.1,
    optimism: Scalar = 1e-5,
) -> Pairs:
    """Compute DPO's loss plus `optimism` times log pi(the answer that the reference drew).

    Of each pair one answer is the policy's, the other the reference's; `drawn` is log pi of the latter, chosen or not.
    That makes pi less fond of what the reference says already: the bonus for exploring.

    Source: Xie et al., 2024, "Exploratory Preference Optimization", arXiv:2405.21046, algorithm 1 as TRL's
    paper index and the `experimental/xpo` of its version 1.10 have it, whose numbers these are; 1.16 has none. The
    paper's own pages could not be looked up.
    """
    return dpo(chosen, rejected, reference_chosen, reference_rejected, beta) + optimism * drawn


def kto_baseline(log_probability: Pairs, reference: Pairs) -> Float[Array, ""]:
    """Estimate KTO's point of reference: max(0, mean of log pi - log reference) over answers to other prompts.

    Pair each prompt with another prompt's answer, and give the log-probabilities of those. Nothing flows through it.

    Source: as `kto`.
    """
    return jax.lax.stop_gradient(jnp.maximum(jnp.mean(log_probability - reference), 0.0))


def kto(
    log_probability: Pairs,
    reference: Pairs,
    wanted: Bool[Array, " pair"],
    baseline: Float[Array, ""],
    beta: Scalar = 0.1,
    wanted_weight: Scalar = 1.0,
    unwanted_weight: Scalar = 1.0,
) -> Pairs:
    """Compute the loss of answers that are wanted or not, with x = log pi - log reference and b the baseline.

        wanted_weight (1 - sigmoid(beta (x - b)))        of a wanted answer
        unwanted_weight (1 - sigmoid(beta (b - x)))      of another

    Source: Ethayarajh et al., 2024, "KTO: Model Alignment as Prospect Theoretic Optimization", arXiv:2402.01306,
    equation 7 as TRL 1.16's `kto_trainer.py` quotes it.
    """
    distance = beta * (log_probability - jax.lax.stop_gradient(reference) - baseline)
    sign = jnp.where(wanted, 1.0, -1.0)
    weight = jnp.where(wanted, wanted_weight, unwanted_weight)
    return weight * (1.0 - jax.nn.sigmoid(sign * distance))


PREFERENCES: dict[str, Callable[..., Pairs]] = {
    "dpo": dpo,
    "robust-dpo": robust_dpo,
    "ipo": ipo,
    "hinge": hinge,
    "simpo": simpo,
    "cpo": cpo,
    "orpo": orpo,
    "xpo": xpo,
    "kto": kto,
}
"""The losses by name. Those from `dpo` to `hinge` take the same four arrays."""


def preference_loss(name: str, *arrays: Any, **numbers: Any) -> Float[Array, ""]:
    """Return the mean over pairs of the loss of that name."""
    check_name("loss of preferences", name, PREFERENCES)
    return jnp.mean(PREFERENCES[name](*arrays, **numbers))
