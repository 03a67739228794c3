"""Arrays as rows: merged axes, rows one after the other, products with shared values, standardisation."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from forage.core.spaces import split_mask

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
