"""Beam search for the actions of highest worth, in a model that continues a sequence token by token.

Janner, Li, Levine (2021), "Offline Reinforcement Learning as One Big Sequence Modeling Problem", arXiv 2106.02039, as
`beam_plan` of the authors' code (jannerm/trajectory-transformer: trajectory/search/core.py). A transition is the
tokens of an observation, an action, a reward and a value. Each of `horizon` turns continues every sequence `expand`
times, and keeps the `beams` sequences of highest worth

    r_0 + discount r_1 + ... + discount^t r_t + discount^(t+1) V_t

Tokens of actions are drawn from what is left of the probabilities once the least likely have been cut off; r and
V are means of what the model expects, and all other tokens are its likeliest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

Extend = Callable[[PyTree[Array], Int[Array, " beam"], int], tuple[PyTree[Array], Float[Array, "beam tokens"]]]
"""The model's step: from its cache of each sequence, the next token and that token's place in the transition, to the
new cache and the logits of each token after that.
"""


class Layout(NamedTuple):
    """The numbers of tokens for the parts of a transition; the reward and the value have one each, in this order."""

    observation: int
    action: int

    @property
    def size(self) -> int:
        return self.observation + self.action + 2


class Search(NamedTuple):
    """The numbers of a search."""

    horizon: int
    beams: int
    expand: int
    discount: Any
    cut: Any  # share of the probability that is cut off where actions are drawn, the least likely tokens first


class BestPlan(NamedTuple):
    """The first action of the best sequence, in tokens, and the worth of the sequence."""

    action: Int[Array, " action"]
    worth: Float[Array, ""]


def keep_likely(logits: Float[Array, "*batch tokens"], cut: Any) -> Float[Array, "*batch tokens"]:
    """Return the logits without the least likely tokens, as many as make up less than this share of probability."""
    probability = jax.nn.softmax(logits)
    ranked = jnp.sort(probability, axis=-1)
    number = (jnp.cumsum(ranked, axis=-1) < cut).sum(-1, keepdims=True)
    most = jnp.take_along_axis(ranked, jnp.maximum(number - 1, 0), axis=-1)
    return jnp.where((number > 0) & (probability <= most), -1000.0, logits)


def search_beam(
    extend: Extend,
    memory: PyTree[Array],
    logits: Float[Array, "beam tokens"],
    layout: Layout,
    search: Search,
    reward: Float[Array, " tokens"],
    value: Float[Array, " tokens"],
    key: Key[Array, ""],
) -> BestPlan:
    """Search from the model's cache of a sequence up to an observation (leaves `beam ...`, the same in all beams).

    `reward`, `value`: what each token of these stands for.
    """

    def turn(state: Any, now: Any) -> tuple[Any, None]:
        time, key = now
        memory, logits, total, first, _ = jax.tree.map(lambda x: jnp.repeat(x, search.expand, axis=0), state)
        action = []
        for number in range(layout.action):
            key, draw_key = jax.random.split(key)
            action.append(jax.random.categorical(draw_key, keep_likely(logits, search.cut)))
            memory, logits = extend(memory, action[-1], layout.observation + number)
        first = jnp.where(time == 0, jnp.stack(action, axis=1), first)
        total = total + search.discount**time * (jax.nn.softmax(logits) @ reward)
        memory, logits = extend(memory, logits.argmax(-1), layout.size - 2)
        worth = total + search.discount ** (time + 1) * (jax.nn.softmax(logits) @ value)
        memory, logits = extend(memory, logits.argmax(-1), layout.size - 1)
        worth, kept = jax.lax.top_k(worth, search.beams)
        memory, logits, total, first = jax.tree.map(lambda x: x[kept], (memory, logits, total, first))
        for place in range(layout.observation):
            memory, logits = extend(memory, logits.argmax(-1), place)
        return (memory, logits, total, first, worth), None

    nothing = jnp.zeros(search.beams), jnp.zeros((search.beams, layout.action), jnp.int32), jnp.zeros(search.beams)
    turns = jnp.arange(search.horizon), jax.random.split(key, search.horizon)
    _, _, _, first, worth = jax.lax.scan(turn, (memory, logits, *nothing), turns)[0]
    best = worth.argmax()
    return BestPlan(first[best], worth[best])
