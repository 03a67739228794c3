"""Attention of queries to keys, of all queries at once or block by block.

    weight = softmax(bound tanh(scale q k' / bound)) over the keys that a query sees,    found = weight v

A query sees the keys that are not later than it and, in a layer with a window, not too far back. The weights of a text
of T tokens are T^2 numbers for each head. Where there are many queries they are therefore taken in blocks, one after
another, and their weights are computed anew in the backward pass: the memory grows linearly in T (Rabe, Staats, 2021,
"Self-attention Does Not Need O(n^2) Memory", arXiv 2112.05682; its own pages could not be looked up). Keys that stand
behind all queries of a few blocks are left out there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

NEVER = -1e9  # added to the logit of a key that is not seen; finite, so that a row that sees none has a gradient
NOTHING = -1  # the position of a column that is seen by none
BLOCK = 128  # queries of a block
WHOLE = 256  # queries that are taken all at once, at most
SEGMENTS = 4  # parts of a text's blocks, each of which leaves out the keys behind it


class Sight(NamedTuple):
    """The positions of queries and keys, which tell the keys that each query sees."""

    query: Int[Array, "#batch time"]
    key: Int[Array, "#batch length"]  # -1 where there is none to be seen
    begin: Int[Array, "#batch time"] | tuple[()] = ()  # the first position that each query sees, where a row holds
    # several texts; (): all before it

    def last(self, wanted: int) -> Sight:
        """Return the sight of the last queries; 0 for all."""
        begin = self.begin if isinstance(self.begin, tuple) else self.begin[:, -wanted:]
        return self._replace(query=self.query[:, -wanted:], begin=begin)

    def bias(self, window: int = 0) -> Float[Array, "#batch time length"]:
        """Return the summand of the logits: 0 for a key that is seen, `NEVER` for another.

        `window`: how many positions back a query sees, its own counted; 0 for all.
        """
        query, key = self.query[:, :, None], self.key[:, None, :]
        sees = (key >= 0) & (key <= query)
        if not isinstance(self.begin, tuple):
            sees &= key >= self.begin[:, :, None]
        return jnp.where(sees & (key > query - window) if window else sees, 0.0, NEVER)


class AttentionRule(NamedTuple):
    """The choices of a layer's attention."""

    scale: float  # factor of logits
    bound: float = 0.0  # of logits; 0: none
    window: int = 0  # how many positions back a query sees, its own counted; 0: all


def cap(logits: Float[Array, "*batch"], bound: float) -> Float[Array, "*batch"]:
    """Bound logits smoothly: bound tanh(logit / bound); 0 leaves them."""
    return bound * jnp.tanh(logits / bound) if bound else logits


def attention_weights(
    queries: Float[Array, "batch shared group time size"],
    keys: Float[Array, "batch shared length size"],
    sight: Sight,
    rule: AttentionRule,
) -> Float[Array, "batch shared group time length"]:
    """Compute the weight of each key for each query, in float32. Groups of query heads share a head of keys."""
    weight = _weigh_keys(_merge_group(queries), keys, sight, rule)
    return weight.reshape(*queries.shape[:4], -1)


def _merge_group(queries: Float[Array, "batch shared group time size"]) -> Float[Array, "batch shared query size"]:
    """Return the queries of all heads that share a head of keys on one axis.

    With one axis of queries XLA on the CPU takes two thirds of the time, as it copies no array of weights.
    """
    batch, shared, *_, size = queries.shape
    return queries.reshape(batch, shared, -1, size)


def _weigh_keys(
    queries: Float[Array, "batch shared query size"],
    keys: Float[Array, "batch shared length size"],
    sight: Sight,
    rule: AttentionRule,
) -> Float[Array, "batch shared query length"]:
    """Compute the weight of each key for each query, with the queries of a group on one axis."""
    logits = jnp.einsum("bkqs,bkls->bkql", queries, keys, preferred_element_type=jnp.float32)
    bias = sight.bias(rule.window)
    bias = jnp.tile(bias, (1, queries.shape[2] // bias.shape[1], 1))  # once for each head of a group
    return jax.nn.softmax(cap(logits * rule.scale, rule.bound) + bias[:, None], axis=-1)


def attend(
    queries: Float[Array, "batch shared group time size"],
    keys: Float[Array, "batch shared length size"],
    values: Float[Array, "batch shared length size"],
    sight: Sight,
    rule: AttentionRule,
    ordered: bool = False,
) -> Float[Array, "batch shared group time size"]:
    """Return the weighted sum of the values for each query.

    `ordered`: the queries are those of the last columns of keys, and a column is never seen from one before it.
    """
    time, length = queries.shape[3], keys.shape[2]
    if time <= WHOLE:
        return _attend_whole(queries, keys, values, sight, rule)
    blocks = -(-time // BLOCK)
    room = blocks * BLOCK - time
    padded = jnp.pad(queries, ((0, 0), (0, 0), (0, 0), (0, room), (0, 0)))
    padded = jnp.moveaxis(padded.reshape(*queries.shape[:3], blocks, BLOCK, -1), 3, 0)

    def in_blocks(position: Array) -> Array:
        position = jnp.pad(position, ((0, 0), (0, room)), constant_values=NOTHING)
        return jnp.moveaxis(position.reshape(len(position), blocks, BLOCK), 1, 0)

    position = jax.tree.map(in_blocks, (sight.query, sight.begin))
    segments = min(SEGMENTS, blocks) if ordered else 1
    found = []
    for segment in range(segments):
        first, last = blocks * segment // segments, blocks * (segment + 1) // segments
        seen = length - time + min(last * BLOCK, time) if ordered else length
        near, here, there = keys[:, :, :seen], values[:, :, :seen], sight.key[:, :seen]

        def block(
            pair: tuple[Array, Any], near: Array = near, here: Array = here, there: Array = there
        ) -> Float[Array, "batch shared group block size"]:
            return _attend_whole(pair[0], near, here, Sight(pair[1][0], there, pair[1][1]), rule)

        part = jax.tree.map(lambda x: x[first:last], (padded, position))  # noqa: B023
        found.append(jax.lax.map(jax.checkpoint(block, prevent_cse=False), part))
    whole = jnp.moveaxis(jnp.concatenate(found), 0, 3)
    return whole.reshape(*queries.shape[:3], blocks * BLOCK, -1)[..., :time, :]


def _attend_whole(queries: Array, keys: Array, values: Array, sight: Sight, rule: AttentionRule) -> Array:
    """Return the result of `attend`, of all queries at once."""
    weight = _weigh_keys(_merge_group(queries), keys, sight, rule)
    return jnp.einsum("bkql,bkls->bkqs", weight.astype(values.dtype), values).reshape(queries.shape)
