"""The diversity of the answers to one prompt: by shared tokens, and by a model's representations."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage.core.types import ForageError

WEIGHTS = (0.02, 0.1, 0.15, 0.25, 0.38)
"""The weights of n-grams of one to five tokens, DIVER's."""


def bleu(
    tokens: Int[Array, "answer time"],
    there: Bool[Array, "answer time"],
    weights: tuple[float, ...] = WEIGHTS,
) -> Float[Array, "answer answer"]:
    """Return the BLEU score of each answer (first axis), with another one (second axis) as its only reference.

        p_n = sum over n-grams of min(count in the answer, count in the reference) / n-grams of the answer
        brevity = 1 where the answer is longer than the reference, else exp(1 - reference's length / its own)
        BLEU = brevity exp(sum_n w_n log p_n)

    It is 0 where some p_n is 0. N-grams longer than the shorter of both are left out, and the other weights grow to the
    same sum, so that equal short answers have the score 1; without that rule they would have 0. Padding stands behind.

    Sources: Papineni, Roukos, Ward, Zhu, 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation";
    weights and pairs as in DIVER's `diversity_metric.py` (arXiv:2509.26209), which counts words, where this counts
    tokens.
    """
    if not weights or min(weights) <= 0:
        raise ForageError(f"BLEU takes one weight above 0 for each length of n-grams, not {weights}.")
    tokens, there = jnp.asarray(tokens), jnp.asarray(there)
    answers, time = tokens.shape
    length = there.sum(1)
    both = there[:, :, None, None] & there[None, None]
    same = (tokens[:, :, None, None] == tokens[None, None]) & both
    shorter = jnp.minimum(length[:, None], length[None])
    shared, logarithm, used = same, jnp.zeros((answers, answers)), jnp.zeros((answers, answers))
    own = jnp.arange(answers)
    for n, weight in enumerate(weights, 1):
        if n > time:
            break
        if n > 1:
            moved = jnp.roll(same, (1 - n, 1 - n), (1, 3)).at[:, time - n + 1 :].set(False)
            shared = shared & moved.at[..., time - n + 1 :].set(False)
        counts = shared.sum(3)  # of the n-gram that begins at each token of an answer, in each answer
        among = counts[own, :, own]
        found = jnp.sum(jnp.minimum(counts, among[..., None]) / jnp.maximum(among, 1)[..., None], 1)
        precision = found / jnp.maximum(length - n + 1, 1)[:, None]
        fits = n <= shorter
        logarithm = logarithm + jnp.where(fits, weight * jnp.log(jnp.where(fits, precision, 1.0)), 0.0)
        used = used + jnp.where(fits, weight, 0.0)
    brevity = jnp.where(
        length[:, None] > length[None], 1.0, jnp.exp(1 - length[None] / jnp.maximum(length, 1)[:, None])
    )
    score = brevity * jnp.exp(logarithm * sum(weights) / jnp.maximum(used, min(weights)))
    return jnp.where(shorter > 0, score, 0.0)


def textual_diversity(
    tokens: Int[Array, "answer time"],
    there: Bool[Array, "answer time"],
    weights: tuple[float, ...] = WEIGHTS,
) -> Float[Array, " answer"]:
    """Compute the dissimilarity of each answer to the others of its group: 1 - mean BLEU with each other, both ways.

    Source: Hu et al., 2025, "Diversity-Incentivized Exploration for Versatile Reasoning", arXiv:2509.26209 (textual
    diversity), as in the authors' `calculate_belu_matrix`.
    """
    score = bleu(tokens, there, weights)
    alike = (score + score.T) / 2
    others = jnp.where(jnp.eye(len(alike), dtype=bool), 0.0, alike)
    return 1 - others.sum(1) / max(len(alike) - 1, 1)


def leverage(features: Float[Array, "answer feature"], ridge: float | Float[Array, ""]) -> Float[Array, " answer"]:
    """Return the elliptical bonus of each answer of a group, h' V^-1 h, itself counted among those that were seen.

        h_i = features_i - mean features
        V = ridge I + sum_i h_i h_i'

    It lies between 0 and 1, and is large in directions that few answers of the group take.

    Source: Tuyls, Foster, Krishnamurthy, Ash, 2025, "Representation-Based Exploration for Language Models: From
    Test-Time to Post-Training", arXiv:2510.11686, as `leverage` in verl's `recipe/rep_exp`, which the authors train
    with.
    """
    centred = features - features.mean(0)
    # By the Gram matrix of the answers, which are fewer than the features may be: with H = U S W' the bonus is that of
    # U S^2 (S^2 + ridge)^-1 U'.
    gram = centred @ centred.T
    values, vectors = jnp.linalg.eigh((gram + gram.T) / 2)
    values = jnp.maximum(values, 0.0)
    return jnp.sum(vectors**2 * (values / (values + ridge)), 1)
