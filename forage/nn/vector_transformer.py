"""A causal transformer: each token sees itself and those before it, all at once or one after another.

Pre-normalised blocks, as in GPT-2 (Radford, Wu, Child, Luan, Amodei, Sutskever, 2019, "Language Models are Unsupervised
Multitask Learners", section 2.3: the norm moves to the input of each part of a block, and one more follows the last):

    x <- x + attention(norm(x));   x <- x + mlp(norm(x));   at last  y = norm(x)

    attention (Vaswani et al., 2017, "Attention Is All You Need", arXiv 1706.03762, equation 1):
        softmax(q k' / sqrt(size of a head)) v,   over the tokens that are not later and are no padding

- Fewer heads of keys and values than of queries share them (Ainslie et al., 2023, "GQA", arXiv 2305.13245).
- Positions are learned vectors that are added to the tokens, or rotations of queries and keys by angles that grow with
  the position (Su et al., 2021, "RoFormer", arXiv 2104.09864, equation 34), or none: then who makes the tokens says
  where they are.
- A cache holds the keys and values of earlier tokens, so that one more token costs one token's work. Once it is full
  the oldest token is forgotten.

Weights begin normal with a deviation of 0.02, biases at zero, and the layers that a block's results leave by with that
over sqrt(2 layers), as in GPT-2's code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.core.errors import ForageError
from forage.nn.layers import Activation, Linear, Norm, activation, apply_dropout

POSITIONS = ("none", "learned", "rotary")
DEVIATION = 0.02
NEVER = -1e9  # added to the logit of what is not seen; finite, so that a row that sees nothing has a gradient


class TransformerConfig(NamedTuple):
    """The sizes of a transformer."""

    width: int  # numbers in a token
    layers: int
    heads: int  # of queries
    key_heads: int = 0  # of keys and values; 0: as many as of queries
    inner: int = 0  # units within a block's MLP; 0: four times the width
    activation: str | Activation = "gelu"
    dropout: float = 0.0  # share of what is dropped of attention and of each part's result, where a key is given

    def check(self) -> None:
        """Raise `ForageError` for sizes that do not divide."""
        if min(self.width, self.layers, self.heads) < 1 or self.width % self.heads:
            raise ForageError(
                f"A transformer of width {self.width} has no {self.heads} equal heads; its width must be a multiple of "
                f"its heads."
            )
        if self.key_heads and self.heads % self.key_heads:
            raise ForageError(f"{self.heads} heads cannot share {self.key_heads} of keys; take a number that divides.")


def draw_linear(key: Key[Array, ""], inputs: int, outputs: int, deviation: float = DEVIATION) -> Linear:
    """Return a linear layer with normal weights and no bias yet."""
    like = Linear(key, inputs, outputs)
    weights = deviation * jax.random.normal(key, (inputs, outputs)), jnp.zeros(outputs)
    return equinox.tree_at(lambda layer: (layer.weight, layer.bias), like, weights)


def rotate_by_position(
    x: Float[Array, "tokens heads size"], position: Int[Array, " tokens"]
) -> Float[Array, "tokens heads size"]:
    """Turn each pair of numbers (i, i + size / 2) by the angle position / 10000^(2 i / size)."""
    half = x.shape[-1] // 2
    angle = position[:, None, None] * (1e4 ** (-jnp.arange(half) / half))
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], axis=-1)


class Block(equinox.Module):
    """Attention, then an MLP, each added to its input."""

    norms: tuple[Norm, Norm]
    queries: Linear
    keys: Linear
    values: Linear
    out: Linear
    wide: Linear
    narrow: Linear
    shape: TransformerConfig = equinox.field(static=True)
    rotary: bool = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], shape: TransformerConfig, rotary: bool):
        keys = jax.random.split(key, 6)
        shared, inner = self.key_size(shape), shape.inner or 4 * shape.width
        last = DEVIATION / math.sqrt(2 * shape.layers)
        self.norms = (Norm(shape.width), Norm(shape.width))
        self.queries = draw_linear(keys[0], shape.width, shape.width)
        self.keys = draw_linear(keys[1], shape.width, shared)
        self.values = draw_linear(keys[2], shape.width, shared)
        self.out = draw_linear(keys[3], shape.width, shape.width, last)
        self.wide = draw_linear(keys[4], shape.width, inner)
        self.narrow = draw_linear(keys[5], inner, shape.width, last)
        self.shape, self.rotary = shape, rotary

    @staticmethod
    def key_size(shape: TransformerConfig) -> int:
        """Return the size of the keys of one token."""
        return shape.width // shape.heads * (shape.key_heads or shape.heads)

    def project_heads(
        self, x: Float[Array, "tokens width"], position: Int[Array, " tokens"]
    ) -> tuple[Float[Array, "tokens heads size"], Float[Array, "tokens keys size"], Float[Array, "tokens keys size"]]:
        """Return queries, keys and values, by head."""
        size, x = self.shape.width // self.shape.heads, self.norms[0](x)
        q, k, v = (layer(x).reshape(len(x), -1, size) for layer in (self.queries, self.keys, self.values))
        return (rotate_by_position(q, position), rotate_by_position(k, position), v) if self.rotary else (q, k, v)

    def attend(
        self,
        x: Float[Array, "tokens width"],
        q: Float[Array, "tokens heads size"],
        k: Float[Array, "past keys size"],
        v: Float[Array, "past keys size"],
        sees: Bool[Array, "tokens past"],
        key: Key[Array, ""] | None = None,
    ) -> Float[Array, "tokens width"]:
        """Compute the block's output for tokens whose queries may look at the keys in `sees`."""
        keys = [None] * 3 if key is None else jax.random.split(key, 3)
        shared, rate = k.shape[1], self.shape.dropout
        q = q.reshape(len(q), shared, -1, q.shape[-1])
        logits = jnp.einsum("tkgs,pks->kgtp", q, k) / math.sqrt(q.shape[-1])
        weight = jax.nn.softmax(logits + jnp.where(sees, 0.0, NEVER), axis=-1)
        found = jnp.einsum("kgtp,pks->tkgs", apply_dropout(weight, rate, keys[0]), v)
        x = x + apply_dropout(self.out(found.reshape(x.shape)), rate, keys[1])
        inner = activation(self.shape.activation)(self.wide(self.norms[1](x)))
        return x + apply_dropout(self.narrow(inner), rate, keys[2])


class Cache(NamedTuple):
    """The keys and values of earlier tokens, of each layer, and how many tokens there have been."""

    keys: Float[Array, "layers length heads size"]
    values: Float[Array, "layers length heads size"]
    visible: Bool[Array, " length"]  # where there is a token that others may look at
    count: Int[Array, ""]
    position: Int[Array, ""]  # of the next token: how many visible ones there have been


class VectorTransformer(equinox.Module):
    """A causal transformer of one sequence. Tokens are vectors; with a `vocabulary`, numbers may become vectors."""

    blocks: tuple[Block, ...]
    norm: Norm
    table: Float[Array, "vocabulary width"] | None
    places: Float[Array, "length width"] | None
    shape: TransformerConfig = equinox.field(static=True)
    positions: str = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        shape: TransformerConfig,
        positions: str = "rotary",
        length: int = 0,
        vocabulary: int = 0,
    ):
        """`length`: the number of positions, if they are learned. `vocabulary`: the number of tokens that have
        numbers.
        """
        shape.check()
        if positions not in POSITIONS:
            raise ForageError(f"There are no positions {positions!r}; there are {', '.join(POSITIONS)}.")
        if positions == "learned" and length < 1:
            raise ForageError("Learned positions need a length, that of the longest sequence.")
        if positions == "rotary" and shape.width // shape.heads % 2:
            raise ForageError(
                f"Rotary positions turn pairs of numbers, and a head of {shape.width // shape.heads} is odd."
            )
        *keys, table_key, place_key = jax.random.split(key, shape.layers + 2)
        self.blocks = tuple(Block(k, shape, positions == "rotary") for k in keys)
        self.norm = Norm(shape.width)
        self.table = DEVIATION * jax.random.normal(table_key, (vocabulary, shape.width)) if vocabulary else None
        learned = positions == "learned"
        self.places = DEVIATION * jax.random.normal(place_key, (length, shape.width)) if learned else None
        self.shape, self.positions = shape, positions

    def embed(self, tokens: Int[Array, "*tokens"]) -> Float[Array, "*tokens width"]:
        """Return the vectors of numbered tokens."""
        assert self.table is not None
        return self.table[tokens]

    def logits(self, y: Float[Array, "*tokens width"]) -> Float[Array, "*tokens vocabulary"]:
        """Compute the logits of the numbered tokens, by the vectors of the input tokens (weights are tied)."""
        assert self.table is not None
        return y @ self.table.T

    def __call__(
        self,
        x: Float[Array, "tokens width"],
        mask: Bool[Array, " tokens"] | None = None,
        key: Key[Array, ""] | None = None,
    ) -> Float[Array, "tokens width"]:
        """Return the hidden state of each token. `mask`: without padding. `key`: of the dropout."""
        return self.encode(x, mask, key)[0]

    def encode(
        self,
        x: Float[Array, "tokens width"],
        mask: Bool[Array, " tokens"] | None = None,
        key: Key[Array, ""] | None = None,
        length: int = 0,
    ) -> tuple[Float[Array, "tokens width"], Cache]:
        """Return the hidden states, and a cache with room for `length` tokens, from which `step` continues."""
        tokens = len(x)
        position = jnp.arange(tokens) if mask is None else jnp.maximum(jnp.cumsum(mask) - 1, 0)
        sees = jnp.tril(jnp.ones((tokens, tokens), bool))
        sees = sees if mask is None else sees & mask
        keys = [None] * (len(self.blocks) + 1) if key is None else jax.random.split(key, len(self.blocks) + 1)
        x = apply_dropout(self.add_positions(x, position), self.shape.dropout, keys[-1])
        kept = []
        for block, block_key in zip(self.blocks, keys[:-1], strict=True):
            q, k, v = block.project_heads(x, position)
            x = block.attend(x, q, k, v, sees, block_key)
            kept.append((k, v))
        more = max(length, tokens) - tokens
        room = (0, 0), (0, more), (0, 0), (0, 0)
        past, values = (jnp.pad(jnp.stack([part[i] for part in kept]), room) for i in range(2))
        there = jnp.ones(tokens, bool) if mask is None else mask
        visible = jnp.pad(there, (0, more))
        return self.norm(x), Cache(past, values, visible, jnp.int32(tokens), there.sum())

    def add_positions(
        self, x: Float[Array, "tokens width"], position: Int[Array, " tokens"]
    ) -> Float[Array, "tokens width"]:
        """Add the learned positions of tokens, if there are any; positions beyond the last are the last."""
        if self.places is None:
            return x
        return x + self.places[jnp.minimum(position, len(self.places) - 1)]

    def cache(self, length: int) -> Cache:
        """Return an empty cache for `length` tokens."""
        size = self.shape.width // self.shape.heads
        zeros = jnp.zeros((len(self.blocks), length, self.shape.key_heads or self.shape.heads, size))
        return Cache(zeros, zeros, jnp.zeros(length, bool), jnp.int32(0), jnp.int32(0))

    def step(
        self, cache: Cache, x: Float[Array, " width"], visible: Bool[Array, ""] | bool = True
    ) -> tuple[Float[Array, " width"], Cache]:
        """Return the hidden state of one more token, and the cache with it. A token that is not `visible` is seen by
        none.
        """
        place = cache.count % cache.keys.shape[1]
        position = jnp.where(visible, cache.position, jnp.maximum(cache.position - 1, 0))
        seen = cache.visible.at[place].set(visible)
        x, keys, values = self.add_positions(x[None], position[None]), [], []
        for number, block in enumerate(self.blocks):
            q, k, v = block.project_heads(x, position[None])
            k = jax.lax.dynamic_update_index_in_dim(cache.keys[number], k[0], place, 0)
            v = jax.lax.dynamic_update_index_in_dim(cache.values[number], v[0], place, 0)
            x = block.attend(x, q, k, v, seen[None])
            keys.append(k)
            values.append(v)
        after = cache.position + jnp.asarray(visible, jnp.int32)
        return self.norm(x)[0], Cache(jnp.stack(keys), jnp.stack(values), seen, cache.count + 1, after)
