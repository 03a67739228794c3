"""Sums and means over the tokens that count, and the ways of making one number of the losses of tokens."""

from __future__ import annotations

from collections.abc import Iterable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.core.types import ForageError

AGGREGATIONS = ("sequence-mean", "token-mean", "constant", "sequence-sum")
"""The rules of `aggregate`."""
MEANS = tuple(rule for rule in AGGREGATIONS if rule != "constant")
"""The rules that do not divide by a constant."""


def check_name(what: str, name: str, names: Iterable[str]) -> None:
    """Raise a `ForageError` that lists the names unless `name` is one of them."""
    if name not in names:
        raise ForageError(f"There is no {what} {name!r}; there are {', '.join(names)}.")


def where_mask(x: Float[Array, "sequence time"], mask: Bool[Array, "sequence time"]) -> Float[Array, "sequence time"]:
    """Return x where the mask is true and 0 elsewhere, with a gradient of exactly 0 there."""
    return jnp.where(mask, x, 0.0)


def sequence_sum(x: Float[Array, "sequence time"], mask: Bool[Array, "sequence time"]) -> Float[Array, " sequence"]:
    """Return the sum of the tokens of each sequence that count."""
    return jnp.sum(where_mask(x, mask), axis=-1)


def sequence_mean(x: Float[Array, "sequence time"], mask: Bool[Array, "sequence time"]) -> Float[Array, " sequence"]:
    """Return the mean of the tokens of each sequence that count, and 0 for a sequence without any."""
    return sequence_sum(x, mask) / jnp.maximum(jnp.sum(mask, axis=-1), 1)


def token_mean(x: Float[Array, "sequence time"], mask: Bool[Array, "sequence time"]) -> Float[Array, ""]:
    """Return the mean of all tokens that count, and 0 if there are none."""
    return jnp.sum(where_mask(x, mask)) / jnp.maximum(jnp.sum(mask), 1)


def aggregate(
    loss: Float[Array, "sequence time"],
    mask: Bool[Array, "sequence time"],
    rule: str = "token-mean",
    length: int | None = None,
) -> Float[Array, ""]:
    """Make one number of the losses of tokens.

    With L_i tokens that count in sequence i, and B sequences that have any, each `rule` is

        sequence-mean   1/B sum_i 1/L_i sum_t loss_it    GRPO: every answer counts the same, a token of a long one less
        token-mean      sum_it loss_it / sum_i L_i       DAPO, Lite PPO: every token counts the same
        constant        sum_it loss_it / (B length)      Dr. GRPO: `length` is the longest answer allowed
        sequence-sum    1/B sum_it loss_it               REINFORCE of whole answers, LUSPO

    A sequence without such tokens, such as a turn after the end of its episode, or an answer that nothing is learned
    from, changes no number: what others weigh does not depend on how many of these stand beside them.

    Sources: Shao et al., 2024, arXiv:2402.03300 (GRPO); Yu et al., 2025, arXiv:2503.14476 (DAPO); Liu et al., 2025,
    arXiv:2503.20783 (Dr. GRPO); 2026, arXiv:2602.05261 (LUSPO); each as in TRL 1.16's `grpo_trainer.py`. The papers'
    own pages could not be looked up.
    """
    check_name("aggregation", rule, AGGREGATIONS)
    if (rule == "constant") != (length is not None):
        raise ForageError("The aggregation 'constant' needs a length, and no other one takes it.")
    if rule == "token-mean":
        return token_mean(loss, mask)
    count = jnp.maximum(jnp.sum(jnp.any(mask, axis=-1)), 1)
    if rule == "sequence-mean":
        return jnp.sum(sequence_mean(loss, mask)) / count
    total = jnp.sum(where_mask(loss, mask)) / count
    return total if length is None else total / length
