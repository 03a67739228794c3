"""The entropy of tokens: of the most probable ones, at its peaks, and as a weight of answers and penalties."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage.core.types import ForageError
from forage.ops.sampling import Sampling, support
from forage.ops.tokens.masks import check_name

Scalar = float | Float[Array, ""]
SMALL = 1e-12
MEASURES = ("largest", "negentropy")
"""The measures of `certainty`."""


def nucleus_entropy(log_probability: Float[Array, "*batch vocabulary"], share: float = 0.8) -> Float[Array, "*batch"]:
    """Compute the entropy of a distribution within its most probable tokens, normalised to sum 1 there.

    These are the tokens that have less than `share` together, counted from the most probable one; the token that
    reaches it is none of them. Where a single token has as much, the entropy is 0. Equally probable tokens are in or
    out together.

    Source: Liu et al., 2025, "Rethinking Entropy Regularization in Large Reasoning Models" (SIREN), arXiv:2509.25133,
    as `efficient_top_p_sampling` in the authors' `verl/workers/actor/dp_actor.py` (Linn3a/siren), which looks at the
    10,000 most probable tokens alone.
    """
    z = jax.lax.stop_gradient(log_probability)
    z = z - jnp.max(z, axis=-1, keepdims=True)
    inside = support(z, Sampling(top_p=share))
    if share < 1:
        inside &= z > jnp.min(jnp.where(inside, z, jnp.inf), axis=-1, keepdims=True)
    probability = jnp.where(inside, jnp.exp(log_probability), 0.0)
    probability = probability / (jnp.sum(probability, axis=-1, keepdims=True) + SMALL)
    return -jnp.sum(probability * jnp.log(probability + SMALL), axis=-1)


def peaks(
    entropy: Float[Array, "sequence time"], mask: Bool[Array, "sequence time"], quantile: float = 0.8
) -> Bool[Array, "sequence time"]:
    """Return the mask of tokens whose entropy is above that quantile of their own sequence's entropies.

    Source: as `nucleus_entropy` (`mask_by_quantile`). Linear interpolation between order statistics.
    """
    bound = jnp.nanquantile(jnp.where(mask, entropy, jnp.nan), quantile, axis=-1, keepdims=True)
    return mask & (entropy > bound)


def sequence_weights(
    advantage: Float[Array, "group answer *time"],
    entropy: Float[Array, "group answer *time"],
    bonus: Scalar,
    temperature: Scalar,
    there: Bool[Array, "group answer *time"],
) -> Float[Array, "group answer *time"]:
    """Compute weights of a group's answers, or of its tokens at one place, by advantage and entropy.

        w_i = exp((A_i + bonus H_i) / temperature) / sum_j exp((A_j + bonus H_j) / temperature)

    over the answers j of the group that are `there`; the others have 0.

    Source: Vanlioglu, 2025, "Entropy-Guided Sequence Weighting for Efficient Exploration in RL-Based LLM Fine-Tuning"
    (EGSW), arXiv:2503.22456, whose formula is quoted at sciencestack.ai.
    """
    raw = jnp.where(there, (advantage + bonus * entropy) / temperature, -jnp.inf)
    return jax.lax.stop_gradient(jnp.where(there, jax.nn.softmax(raw, axis=1), 0.0))


def certainty(
    reference: Float[Array, "*batch vocabulary"],
    exponent: float,
    measure: str = "largest",
    intercept: float = 0.0,
    size: int | Int[Array, ""] | None = None,
) -> Float[Array, "*batch"]:
    """Return the weight of the KL penalty at a token: smaller if the reference is uncertain about the next token.

        c = p                             `largest`
        c = 1 + log p / log vocabulary    `negentropy`
        weight = (1 - intercept) c^exponent + intercept

    with p the greatest probability of the reference, whose log-probabilities are given; 1 where it is certain. Multiply
    `kl_loss` by it. `intercept` must not be positive. `size`: tokens that the vocabulary knows; none: all.

    Source: Vassoyan, Beau, Plaud, 2025, "Ignore the KL Penalty! Boosting Exploration on Critical Tokens to Enhance RL
    Fine-Tuning", arXiv:2502.06533, as in the authors' `src/rl_modules/custom_a2c_policy.py`
    (jvasso/llm-rl-arithmetic), which has both measures and the intercept. The paper's pages could not be looked up.
    """
    check_name("measure of certainty", measure, MEASURES)
    if isinstance(intercept, float | int) and intercept > 0:
        raise ForageError(f"The intercept of the certainty is {intercept}; it must not be positive.")
    largest = jnp.max(reference, axis=-1)
    if measure == "largest":
        found = jnp.exp(largest)
    else:
        found = jnp.clip(1.0 + largest / jnp.log(reference.shape[-1] if size is None else size), 0.0, 1.0)
    return jax.lax.stop_gradient((1.0 - intercept) * found**exponent + intercept)
