"""Rewards by the lengths of answers: the group's shortest right one, a cosine schedule, and repetitions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage.core.types import ForageError

Scalar = float | Float[Array, ""]
Lengths = Int[Array, "group answer"] | Float[Array, "group answer"]


def optimal_length(length: Lengths, right: Bool[Array, "group answer"]) -> Float[Array, " group"]:
    """Return the length of a group's shortest right answer, and the mean of all lengths where none is right.

    Source: Yi, Wang, Li, 2025, "ShorterBetter: Guiding Reasoning Models to Find Optimal Inference Length for Efficient
    Reasoning", arXiv:2504.21370 (sample optimal length), as a review at themoonlight.io and notes at
    newfacade.github.io quote it; the paper's own pages could not be looked up.
    """
    shortest = jnp.min(jnp.where(right, length, jnp.inf), axis=-1)
    return jnp.where(jnp.any(right, axis=-1), shortest, jnp.mean(length, axis=-1))


def shorter_better(
    length: Lengths, right: Bool[Array, "group answer"], truth: Scalar = 1.0, price: Scalar = 0.001
) -> Float[Array, "group answer"]:
    """Compute truth [right] - price |length - optimal_length|.

    Source: as `optimal_length`; the authors' models are named after `truth` 1 and 2, and 0.001 a token is their
    program's (`sb_compute_score`).
    """
    distance = jnp.abs(length - optimal_length(length, right)[:, None])
    return truth * right.astype(distance.dtype) - price * distance


def length_discount(
    length: Lengths, right: Bool[Array, "group answer"], scale: Scalar = 0.2, epsilon: float = 1e-6
) -> Float[Array, "group answer"]:
    """Compute the reward of right answers, less for those that are longer than the group's other right ones.

        [right] (1 - scale sigmoid((length - mean) / (deviation + epsilon)))

    with mean and deviation of the lengths of right answers. It is a length penalty that `length_gate` may switch.

    Source: Arora and Zanette, 2025, "Training Language Models to Reason Efficiently", arXiv:2502.04463, from memory:
    its pages could not be looked up, and the default is not theirs.
    """
    count = jnp.maximum(jnp.sum(right, axis=-1, keepdims=True), 1)
    mean = jnp.sum(jnp.where(right, length, 0.0), axis=-1, keepdims=True) / count
    variance = jnp.sum(jnp.where(right, (length - mean) ** 2, 0.0), axis=-1, keepdims=True) / count
    penalty = jax.nn.sigmoid((length - mean) / (jnp.sqrt(variance) + epsilon))
    return jnp.where(right, 1.0 - scale * penalty, 0.0)


def length_gate(
    right: Bool[Array, "group answer"], penalised: Float[Array, "group answer"], share: float = 0.2
) -> Float[Array, "group answer"]:
    """Return the penalised reward for the best groups of the batch, and 1 for right, 0 for wrong in the others.

    Groups are ranked by their share of right answers; the first `share` of them, rounded down, ties in the order of the
    batch, are asked to be short, and the rest first of all to be right (GRPO-lambda).

    Source: Dai, Liu, Si, 2025, "Stable Reinforcement Learning for Efficient Reasoning", arXiv:2505.18086: abstract and
    a summary that names the selection of the top share by batch-wise correctness; its pages could not be looked up, nor
    the share, so the default is ours.
    """
    if not 0 <= share <= 1:
        raise ForageError(f"The share of groups with a length penalty is {share}; it lies from 0 to 1.")
    groups = right.shape[0]
    order = jnp.argsort(-jnp.mean(right, axis=-1), stable=True)
    chosen = jnp.zeros(groups, bool).at[order].set(jnp.arange(groups) < int(groups * share + 1e-9))
    return jnp.where(chosen[:, None], penalised, right.astype(penalised.dtype))


def cosine_reward(
    length: Int[Array, " answer"],
    right: Bool[Array, " answer"],
    longest: int,
    bounds: tuple[tuple[Scalar, Scalar], tuple[Scalar, Scalar]] = ((2.0, 1.0), (-10.0, 0.0)),
    exceeded: Scalar = -10.0,
    margin: int = 16,
) -> Float[Array, " answer"]:
    """Compute a reward that goes from a first to a last value by half a cosine of the length.

        last + (first - last) (1 + cos(pi length / longest)) / 2        first and last: `bounds` of right, of wrong ones
        exceeded                                                        where length + margin >= longest

    Source: Yeo et al., 2025, "Demystifying Long Chain-of-Thought Reasoning in LLMs", arXiv:2502.03373, as in the
    authors' `openrlhf/reward/cosine.py`.
    """
    part = (1 + jnp.cos(jnp.pi * length / longest)) / 2
    one, other = (last + (first - last) * part for first, last in bounds)
    return jnp.where(length + margin >= longest, exceeded, jnp.where(right, one, other))


def repeated_share(tokens: Int[Array, " time"], there: Bool[Array, " time"], ngram: int) -> Float[Array, ""]:
    """Return 1 - different n-grams / n-grams of an answer, 0 where it is shorter than one. Padding stands behind.

    Source: as `cosine_reward` (`openrlhf/reward/repetition.py`).
    """
    if len(tokens) < ngram:
        return jnp.zeros(())
    count = len(tokens) - ngram + 1
    grams = jnp.stack([tokens[i : count + i] for i in range(ngram)], 1)
    real = jnp.arange(count) < there.sum() - ngram + 1
    same = (grams[:, None] == grams[None]).all(-1) & real[:, None] & real[None]
    seen = jnp.tril(same, -1).any(1)  # an earlier one is the same
    return jnp.sum(seen) / jnp.maximum(real.sum(), 1)
