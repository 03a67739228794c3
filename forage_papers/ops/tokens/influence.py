"""The influence of an answer's steps on the rest: forward context influence by attention, and places to branch at.

Liu, Wang, Shi, Xie, An, Zhang, Zhao, Gu, Lin, Hu, Li, Zhang, Zhou, Gai (2025), "Attention as a Compass: Efficient
Exploration for Process-Supervised RL in Reasoning Models", arXiv 2509.26628, as in the authors' program
(RyanLiu112/AttnRL: recipe/modeling_qwen2.py and recipe/attnrl/attnrl_core_algos.py, `find_top_k_token_idxs`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

NOWHERE = -1.0  # the influence of a token that begins no step


def steps_between(answer: Int[Array, " time"], ends: tuple[int, ...]) -> Int[Array, " time"]:
    """Return the number of the step of each token, from 0: each of `ends` is the last token of a step.

    Without `ends` every token is a step of its own, as it is in an answer that has none of them.
    """
    each = jnp.arange(len(answer))
    if not ends:
        return each
    over = jnp.isin(answer, jnp.asarray(ends, answer.dtype))
    return jnp.where(over.any(), jnp.cumsum(over) - over, each)


def forward_influence(
    attention: Float[Array, "layer head time time"],
    step: Int[Array, " time"],
    wrote: Bool[Array, " time"],
    distance: int = 4,
) -> Float[Array, " time"]:
    """Return the influence that each step of an answer has on later ones, at the step's first token.

        a[j, k] = mean over the tokens of step j of their mean attention to the tokens of step k
        influence of k = max over layers and heads of the sum of a[j, k] over j >= k + distance

    `attention` is among the tokens of the answer: rows attend, and need not sum to 1. The first step has 0, as it
    cannot be branched at, and tokens that begin no step have `NOWHERE`.
    """
    time = len(step)
    member = (step == jnp.arange(time)[:, None]) & wrote  # step token
    share = member / jnp.maximum(member.sum(1, keepdims=True), 1)
    between = jnp.einsum("jq,lhqk,sk->lhjs", share, attention, share)
    later = jnp.arange(time)[:, None] >= jnp.arange(time) + distance
    influence = jnp.where(later, between, 0).sum(2).max((0, 1)).at[0].set(0.0)
    first = wrote & (step != jnp.concatenate([jnp.full(1, -1, step.dtype), step[:-1]]))
    return jax.lax.stop_gradient(jnp.where(first, influence[step], NOWHERE))


def influential(
    influence: Float[Array, " time"], number: int, top: float = 0.2, apart: int = 1
) -> Int[Array, " place"]:
    """Return the tokens to branch an answer at, in rising order; 0, the prompt, stands for missing places.

    Of the steps in the `top` share by influence the earliest are taken that begin at least `apart` tokens after the
    answer's beginning and after the place before. Where they are too few, the earliest other steps fill up.
    """
    time = len(influence)
    step = influence >= 0
    bound = jnp.nanquantile(jnp.where(step, influence, jnp.nan), 1 - top)
    positive = jnp.where(influence > 0, influence, jnp.inf).min()
    bound = jnp.where((bound <= 0) & jnp.isfinite(positive), positive, bound)
    position = jnp.arange(time)
    place = step & (position > 0)
    candidate = place & (influence >= bound)

    last, taken = jnp.int32(0), jnp.zeros(time, bool)
    for _ in range(number):
        free = candidate & (position >= last + apart)
        there = free.any()
        last = jnp.where(there, jnp.argmax(free), time)
        taken |= there & (position == last)
    order = jnp.argsort(jnp.where(taken, position, jnp.where(place, time + position, 2 * time + position)))
    best = jnp.pad(order[:number], (0, max(number - time, 0)))
    return jnp.sort(jnp.where(place[best], best, 0)).astype(jnp.int32)


def mixed(
    prompt: Int[Array, " answer"], reward: Float[Array, " answer"], counts: Bool[Array, " answer"]
) -> Bool[Array, " answer"]:
    """Return the mask of counted answers that have another counted answer of the same prompt with a different
    reward.
    """
    other = (prompt[:, None] == prompt) & counts[:, None] & counts & (reward[:, None] != reward)
    return other.any(1)
