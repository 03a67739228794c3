"""Arrays as rows: merged axes, rows one after the other, standardisation, and shuffled minibatches of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt32

from forage.core.spaces import split_mask
from forage.ops.optimiser import Optimiser

Tree = TypeVar("Tree")


def merge_time(tree: Tree) -> Tree:
    """Return a tree of arrays `time batch ...` as rows: the first two axes of each become one."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def observation_rows(observation: PyTree[Array]) -> Float[Array, "batch numbers"]:
    """Return a batch of observations as rows of floats, without their masks."""
    rows = split_mask(observation)[0]
    return rows.reshape(len(rows), -1).astype(jnp.float32)


def concatenate_rows(*trees: Tree) -> Tree:
    """Return the rows of trees of one structure, one tree after the other."""
    return jax.tree.map(lambda *rows: jnp.concatenate(rows), *trees)


def scale_rows(x: Float[Array, "*shape"], by: Float[Array, "*shared"]) -> Float[Array, "*shape"]:
    """Multiply `x` by an array that is broadcast to its shape: x by.

    The derivative by what is shared is a sum of products. Those of arrays with four axes, one of them being seeds, take
    ten to twenty times as long as others with jaxlib 0.10 on the CPU (with 0.12 they do not); the choice between `by`
    and nothing for what is no number, and stays none, becomes one between products and keeps them apart from the sum.
    """
    return x * jnp.where(jnp.isnan(x), 0.0, by)


def standardise_rows(x: Float[Array, "*batch size"], epsilon: float = 1e-6) -> Float[Array, "*batch size"]:
    """Standardise each row to mean 0 and deviation 1: (x - mean) / sqrt(variance + epsilon)."""
    x = x - x.mean(-1, keepdims=True)
    return scale_rows(x, jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + epsilon))


Parameters = TypeVar("Parameters")


def shuffle(bits: UInt32[Array, " count"]) -> Int[Array, " count"]:
    """Return the numbers below `count` in random order: by random high bits, each number itself in the low ones.

    One array to sort, in place of keys and values. Numbers whose random bits agree stay in ascending order. With
    n = 2^k numbers there are 32 - k such bits: at 2^10 hardly any two agree, at 2^17 (15 bits left) 77 % of neighbours
    in the result ascend rather than half, at 2^20 (12 bits) 99.6 %. Which minibatch a number falls into is random
    still: two neighbours share one of 32 in 1/32 of shuffles.
    """
    low = max(bits.size - 1, 1).bit_length()
    numbered = bits << jnp.uint32(low) | jnp.arange(bits.size, dtype=jnp.uint32)
    return (jnp.sort(numbered) & jnp.uint32(2**low - 1)).astype(jnp.int32)


def weighted_mean(
    x: Float[Array, "*rows"], weight: Float[Array, "*rows"] | Bool[Array, "*rows"] | None = None
) -> Float[Array, ""]:
    """Return the mean of the rows of weight 1 rather than 0; of all without a weight, and 0 where there are none."""
    return x.mean() if weight is None else jnp.sum(weight * x) / jnp.maximum(weight.sum(), 1.0)


def standardise(
    gain: Float[Array, "minibatch *rows"], weight: Float[Array, "minibatch *rows"] | None = None
) -> Float[Array, "minibatch *rows"]:
    """Mean zero and deviation one within each minibatch, of its rows of weight 1 (`None`: of all)."""

    def one(gain: Float[Array, "*rows"], weight: Float[Array, "*rows"] | None) -> Float[Array, "*rows"]:
        gain = gain - weighted_mean(gain, weight)
        return gain / (jnp.sqrt(weighted_mean(gain**2, weight)) + 1e-8)

    return jax.vmap(one)(gain, weight)


def fit(
    loss: Callable[[Parameters, PyTree[Array]], Float[Array, ""]],
    optimiser: Optimiser,
    parameters: Parameters,
    optimiser_state: Any,
    rows: PyTree[Array],
    key: Key[Array, ""],
    epochs: int,
    minibatch_size: int,
    proportion: float = 1.0,
) -> tuple[Parameters, Any, Float[Array, ""]]:
    """Go down `loss(parameters, minibatch)`: `epochs` times over a random `proportion` of `rows` (leaves `row ...`).

    Minibatches have `minibatch_size` rows or a few more, and all of them where there are fewer. Return parameters,
    the optimiser's state, and the mean loss on the way.
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    used = max(1, round(proportion * count))
    minibatches = max(1, used // minibatch_size)
    used -= used % minibatches

    def minibatch(carry: tuple[Parameters, Any], rows: PyTree[Array]) -> tuple[tuple[Parameters, Any], Array]:
        parameters, state = carry
        value, gradient = jax.value_and_grad(loss)(parameters, rows)
        return optimiser.step(gradient, state, parameters), value

    def epoch(carry: tuple[Parameters, Any], key: Key[Array, ""]) -> tuple[tuple[Parameters, Any], Array]:
        order = shuffle(jax.random.bits(key, (count,)))[:used]
        return jax.lax.scan(
            minibatch, carry, jax.tree.map(lambda x: x[order].reshape(minibatches, -1, *x.shape[1:]), rows)
        )

    keys = jax.random.split(key, epochs)
    (parameters, state), losses = jax.lax.scan(epoch, (parameters, optimiser_state), keys)
    return parameters, state, losses.mean()
