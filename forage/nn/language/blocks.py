"""The blocks of a transformer one after another, and a gradient that computes each of them a second time.

With `remat`, blocks of one kind are the steps of a loop of the compiled program. Its gradient keeps the input of each
block alone; without a loop, XLA on the CPU joins the second computation with the first, and keeps all of both.

Where devices have the weights in parts (`partition.py`), those of a block are gathered when it is applied, and anew for
its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from forage.core import mesh
from forage.nn.language.partition import gather, keeps_part

Apply = Callable[[Any, Float[Array, "batch time width"], Any], tuple[Float[Array, "batch time width"], Any]]
"""From a block, its input and a row of its own to its output and a result."""


def apply_blocks(
    blocks: Sequence[Any], apply: Apply, x: Float[Array, "batch time width"], rows: Sequence[Any], remat: bool
) -> tuple[Float[Array, "batch time width"], list[Any]]:
    """Apply blocks one after another, each with its row. Return the last output, and the result of each block.

    `remat`: compute each block a second time for its gradient. A loop needs blocks whose kinds repeat, as all alike or
    every second one with a window; others are computed a second time as far as the compiler allows.
    """
    found: list[Any] = []
    divided = mesh.traced_shape() != mesh.ONE
    if divided:
        apply = gather_blocks(apply)
    if remat:
        apply = jax.checkpoint(apply)
    elif divided:
        apply = jax.checkpoint(apply, policy=keeps_part)
    if remat:
        period = repeat_length(blocks)
        groups = len(blocks) // period
        if groups > 1:
            places = range(period)
            stacks = tuple(
                stack_trees(list(zip(blocks, rows, strict=True))[: groups * period][i::period]) for i in places
            )

            def step(x: Array, group: tuple[tuple[Any, Any], ...]) -> tuple[Array, tuple[Any, ...]]:
                results = []
                for block, row in group:
                    x, result = apply(block, x, row)
                    results.append(result)
                return x, tuple(results)

            x, results = jax.lax.scan(step, x, stacks)
            found = [jax.tree.map(lambda a: a[i // period], results[i % period]) for i in range(groups * period)]  # noqa: B023
    for block, row in zip(blocks[len(found) :], rows[len(found) :], strict=True):
        x, result = apply(block, x, row)
        found.append(result)
    return x, found


def gather_blocks(apply: Apply) -> Apply:
    """Return a function that gathers a block's weights before it applies the block, and divides rows of its output."""

    def apply_whole(block: Any, x: Array, row: Any) -> tuple[Array, Any]:
        x, result = apply(gather(block, block.architecture), mesh.split_leaves(x), row)
        return mesh.split_leaves(x), result

    return apply_whole


def repeat_length(blocks: Sequence[Any]) -> int:
    """Return the smallest number of blocks after which their kinds repeat."""
    kinds = [(block.kind, [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(block)]) for block in blocks]
    lengths = range(1, len(blocks) + 1)
    return next((n for n in lengths if all(kind == kinds[i % n] for i, kind in enumerate(kinds))), 1)


def stack_trees(trees: Sequence[PyTree[Array]]) -> PyTree[Array]:
    """Return trees as one, with the structure of the first and a new first axis."""
    leaves = zip(*map(jax.tree.leaves, trees), strict=True)
    return jax.tree.unflatten(jax.tree.structure(trees[0]), [jnp.stack(group) for group in leaves])
