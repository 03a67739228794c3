"""One distribution over tokens, for sampling and for scoring: temperature, top-k, top-p, min-p, allowed tokens.

From logits z, in this order, as in Hugging Face's `generate` (transformers 5.24, generation/utils.py):

    z <- z where allowed, else -inf
    z <- z / temperature
    top-k   keeps tokens of which fewer than k others are more probable
    top-p   keeps tokens while those more probable than they have less than p together (Holtzman et al., 2020, "The
            Curious Case of Neural Text Degeneration", arXiv 1904.09751)
    min-p   keeps tokens at least min_p times as probable as the most probable one (Nguyen et al., 2024, "Turning Up the
            Heat", arXiv 2407.01082)
    log p = z - log sum of exp(z) over the tokens that are kept

The papers themselves could not be looked up beyond their abstracts; the rules are those of the code named above.
Equally probable tokens are kept or left out together, so that the result does not depend on how a sort breaks ties.

Sampler and learner call the same function, so truncation is part of the policy: with other trainers the ratio of a
policy to itself differs from 1 by the probability of what was cut (huggingface/trl#6789).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.core.errors import ForageError

LOWEST = 1e-6  # a temperature below it is 0: the most probable token
COLDEST = 1e-30  # what divides logits at temperature 0, where the most probable token has probability 1
BELOW_ALL = -2139095042  # one less than -inf as an ordered whole number


class Sampling(NamedTuple):
    """The rules by which tokens are drawn from logits. Numbers may be traced; `None` leaves a rule out."""

    temperature: float | Float[Array, ""] = 1.0  # 0: the most probable token
    top_k: int | Int[Array, ""] | None = None  # this many of the most probable tokens
    top_p: float | Float[Array, ""] | None = None  # the most probable tokens with this much probability together
    min_p: float | Float[Array, ""] | None = None  # tokens with this share of the most probable one's probability

    def check(self) -> None:
        """Raise `ForageError` for numbers out of range, where they are known."""
        bounds = {"temperature": (0, None), "top_k": (1, None), "top_p": (0, 1), "min_p": (0, 1)}
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not isinstance(value, (int, float)):
                continue
            positive = name != "top_p" or value > 0
            if not (positive and value >= low and (high is None or value <= high) and value != float("inf")):
                allowed = {"temperature": "0 or more", "top_k": "a whole number from 1 on"}.get(name)
                allowed = allowed or ("above 0 and at most 1" if name == "top_p" else "from 0 to 1")
                raise ForageError(f"{name} of a sampler is {allowed}, not {value}.")


PLAIN = Sampling()
"""The distribution of the logits themselves."""


def leaves_out(sampling: Sampling) -> bool:
    """Return whether the rules may leave out tokens that are allowed; a traced temperature does not."""
    greedy = isinstance(sampling.temperature, (int, float)) and sampling.temperature == 0
    return greedy or sampling.top_k is not None or sampling.top_p is not None or sampling.min_p is not None


def log_distribution(
    logits: Float[Array, "*batch vocabulary"],
    sampling: Sampling = PLAIN,
    allowed: Bool[Array, "*#batch vocabulary"] | None = None,
    taken: Int[Array, "*batch"] | None = None,
) -> Float[Array, "*batch vocabulary"]:
    """Return the log-probability of every token, -inf for those left out.

    `allowed`: which tokens may be drawn; at least one of each row. `taken`: a token that counts as kept, if allowed.
    """
    sampling.check()
    z = logits.astype(jnp.float32)
    if allowed is not None:
        z = jnp.where(allowed, z, -jnp.inf)
    z = z - jax.lax.stop_gradient(jnp.max(z, axis=-1, keepdims=True))
    if not isinstance(sampling.temperature, (int, float)) or sampling.temperature == 0:
        # XLA may compute bounded logits once for the maximum and once more for the rest, a rounding apart, which
        # division by almost 0 would make infinite: the largest one is made 0 exactly, with its own gradient
        largest = (jnp.arange(z.shape[-1]) == jnp.argmax(z, axis=-1)[..., None]) | (z > 0)
        z = jnp.where(largest, z - jax.lax.stop_gradient(z), z)
    if not (isinstance(sampling.temperature, (int, float)) and sampling.temperature == 1):
        z = z / jnp.maximum(sampling.temperature, COLDEST)
    if sampling.top_k is not None or sampling.top_p is not None or sampling.min_p is not None:
        kept = support(jax.lax.stop_gradient(z), sampling)
        if taken is not None:
            kept |= jnp.arange(z.shape[-1]) == taken[..., None]
        z = jnp.where(kept, z, -jnp.inf)
    return z - jax.nn.logsumexp(z, axis=-1, keepdims=True)


def support(z: Float[Array, "*batch vocabulary"], sampling: Sampling) -> Bool[Array, "*batch vocabulary"]:
    """Return the mask of tokens that can be drawn. `z`: logits over temperature, with a maximum of 0."""
    kept = z > -jnp.inf
    order = ordered_integers(z)
    if sampling.top_k is not None:
        kept &= order >= least_value(order, kept.astype(jnp.float32), sampling.top_k)
    if sampling.top_p is not None:
        probability = jax.nn.softmax(jnp.where(kept, z, -jnp.inf), axis=-1)
        kept &= (order >= least_value(order, probability, sampling.top_p)) | (jnp.asarray(sampling.top_p) >= 1)
    if sampling.min_p is not None:
        kept &= jnp.exp(z) >= sampling.min_p
    return kept


def ordered_integers(z: Float[Array, "*shape"]) -> Int[Array, "*shape"]:
    """Return whole numbers in the order of floating-point ones."""
    bits = jax.lax.bitcast_convert_type(jnp.where(z == 0, 0.0, z), jnp.int32)  # -0 is 0
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def least_value(
    order: Int[Array, "*batch vocabulary"],
    weight: Float[Array, "*batch vocabulary"],
    budget: float | int | Array,
) -> Int[Array, "*batch 1"]:
    """Return the least value above which there is less than `budget` of the weight.

    It is found by halving the range of whole numbers 31 times, which is exact and cheaper than a sort. The greatest
    value is taken to be 0, that of the most probable token.
    """
    low = jnp.full((*order.shape[:-1], 1), BELOW_ALL, jnp.int32)

    def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = low + (high - low) // 2
        fits = jnp.sum(jnp.where(order > middle, weight, 0.0), axis=-1, keepdims=True) < budget
        return jnp.where(fits, low, middle), jnp.where(fits, middle, high)

    return jax.lax.fori_loop(0, 31, halve, (low, jnp.zeros_like(low)))[1]


def noise(key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "*shape"]:
    """Return Gumbel noise: the most probable token once it is added is a draw (Gumbel, 1954)."""
    return jax.random.gumbel(key, shape)


def draw(
    logits: Float[Array, "*batch vocabulary"],
    noise: Float[Array, "*batch vocabulary"],
    sampling: Sampling = PLAIN,
    allowed: Bool[Array, "*#batch vocabulary"] | None = None,
) -> tuple[Int[Array, "*batch"], Float[Array, "*batch"]]:
    """Return a token drawn with Gumbel noise, and the log-probability with which it is drawn.

    At a traced temperature below `LOWEST` that is counted as 0, and the token the most probable one.
    """
    if leaves_out(sampling):
        return draw_token(log_distribution(logits, sampling, allowed), noise)
    sampling.check()
    cold = jnp.asarray(sampling.temperature) < LOWEST
    z = logits.astype(jnp.float32) + jnp.where(cold, 0.0, sampling.temperature) * noise
    token = jnp.argmax(z if allowed is None else jnp.where(allowed, z, -jnp.inf), axis=-1).astype(jnp.int32)
    log_p = score_token(logits, token, sampling, allowed)[0]
    return token, jnp.where(jnp.broadcast_to(cold, (*token.shape, 1))[..., 0], 0.0, log_p)


def draw_token(
    log_probability: Float[Array, "*batch vocabulary"], noise: Float[Array, "*batch vocabulary"]
) -> tuple[Int[Array, "*batch"], Float[Array, "*batch"]]:
    """Return a token drawn from its log-probabilities with Gumbel noise, and its log-probability."""
    token = jnp.argmax(log_probability + noise, axis=-1).astype(jnp.int32)
    return token, token_value(log_probability, token)


def token_value(values: Float[Array, "*batch vocabulary"], token: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Return the value of one token in each row."""
    return jnp.take_along_axis(values, token[..., None], axis=-1)[..., 0]


def log_probability(
    logits: Float[Array, "*batch vocabulary"],
    token: Int[Array, "*batch"],
    sampling: Sampling = PLAIN,
    allowed: Bool[Array, "*#batch vocabulary"] | None = None,
) -> Float[Array, "*batch"]:
    """Return the log-probability with which each token is drawn; -inf where it is not allowed.

    A token counts as kept even if the rules now leave it out: it was kept when it was drawn, and rounding or an update
    may have moved it past a threshold. Its probability is then that of the kept tokens with it among them.
    """
    return token_value(log_distribution(logits, sampling, allowed, token), token)


def score_token(
    logits: Float[Array, "*batch vocabulary"],
    token: Int[Array, "*batch"],
    sampling: Sampling = PLAIN,
    allowed: Bool[Array, "*#batch vocabulary"] | None = None,
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
    """Return the log-probability with which each token is drawn, and the entropy of its distribution.

    As `log_probability` and `entropy` of `log_distribution`; a traced temperature counts as `LOWEST` or more. Where no
    rule leaves out tokens that are allowed, no array of all log-probabilities is made: with z the logits over the
    temperature, less their maximum, and s the sum of exp(z), they are z - log s and log s - sum exp(z) z / s.
    """
    if leaves_out(sampling):
        whole = log_distribution(logits, sampling, allowed)
        return log_probability(logits, token, sampling, allowed), entropy(whole)
    sampling.check()
    z = logits.astype(jnp.float32) / jnp.maximum(sampling.temperature, LOWEST)
    if allowed is not None:
        z = jnp.where(allowed, z, -jnp.inf)
    z = z - jax.lax.stop_gradient(jnp.max(z, axis=-1, keepdims=True))
    likely = jnp.exp(z)
    total = jnp.sum(likely, axis=-1)
    logarithm = jnp.log(total)
    taken = jnp.arange(z.shape[-1]) == token[..., None]  # unlike an index, it fills no array in the gradient
    own = jnp.sum(jnp.where(taken, z, 0.0), axis=-1) - logarithm
    return own, logarithm - jnp.sum(likely * jnp.where(z > -jnp.inf, z, 0.0), axis=-1) / total


def entropy(log_probability: Float[Array, "*batch vocabulary"]) -> Float[Array, "*batch"]:
    """Return -sum p log p over the tokens that can be drawn."""
    finite = jnp.where(log_probability > -jnp.inf, log_probability, 0.0)
    return -jnp.sum(jnp.exp(log_probability) * finite, axis=-1)
