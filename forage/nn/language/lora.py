"""Low-rank adapters: a few trained weights in addition to those of a frozen transformer.

Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang, Chen (2021), "LoRA: Low-Rank Adaptation of Large Language Models", arXiv
2106.09685. A projection becomes

    y = x W + b + (alpha / rank) (x A) B

As in the authors' code (microsoft/LoRA, loralib/layers.py) A begins uniform in +-1/sqrt(inputs) and B at zero, so that
nothing changes at first. The paper could not be opened here. Defaults are those of PEFT (huggingface/peft,
src/peft/tuners/lora/config.py): rank 8, alpha 8. `forage.nn.language.directory` reads and writes its files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from forage.core.errors import ForageError, nearest
from forage.nn.transformer import Block, Projection, Transformer, projections

ALL = "queries", "keys", "values", "out", "gate", "up", "down"
"""The projections of a block that may have an adapter."""


def add_adapters(
    network: Transformer,
    key: Key[Array, ""],
    rank: int = 8,
    alpha: float = 8.0,
    projections: Sequence[str] = ("queries", "values"),
    dtype: Any = jnp.float32,
) -> Transformer:
    """Return the transformer with new adapters, whose effect is zero at first.

    Args:
        network: What is adapted; adapters that it has are merged first.
        key: What the first weights are drawn with.
        rank: Columns of A and rows of B.
        alpha: The adapter's scale, times the rank.
        projections: Which projections of each block are adapted, of `ALL`.
        dtype: Of the adapters; float32 beside weights in bfloat16 keeps small steps.

    Raise `ForageError` for a rank below 1 and for a projection that there is not.
    """
    if rank < 1:
        raise ForageError(f"The rank of an adapter is 1 or more, not {rank}.")
    if unknown := [name for name in projections if name not in ALL]:
        raise ForageError(f"A block has no projection {unknown[0]!r}{nearest(unknown[0], ALL)}")
    network = merge_adapters(network)

    def add(layer: int, name: str, projection: Projection) -> Projection:
        inputs, outputs = projection.weight.shape
        bound = 1 / math.sqrt(inputs)
        own = jax.random.fold_in(key, layer * len(ALL) + ALL.index(name))
        a = jax.random.uniform(own, (inputs, rank), dtype, -bound, bound)
        b = jnp.zeros((rank, outputs), dtype)
        return Projection(projection.weight, projection.bias, a, b, alpha / rank)

    return map_projections(network, lambda layer, name, one: add(layer, name, one) if name in projections else one)


def merge_adapters(network: Transformer) -> Transformer:
    """Return a transformer without adapters that computes the same: W + (alpha / rank) A B."""

    def merge(projection: Projection) -> Projection:
        a, b = projection.lora_a, projection.lora_b
        if a is None or b is None:
            return projection
        weight = projection.weight.astype(a.dtype) + projection.scale * (a @ b)
        return Projection(weight.astype(projection.weight.dtype), projection.bias)

    return map_projections(network, lambda layer, name, one: merge(one))


def drop_adapters(network: Transformer) -> Transformer:
    """Return the transformer without its adapters."""
    return map_projections(network, lambda layer, name, one: Projection(one.weight, one.bias))


def combine_adapters(learned: Transformer, fixed: Transformer | None) -> Transformer:
    """Return the transformer of a trained and a frozen part; without the latter the first is all of it."""
    return learned if fixed is None else equinox.combine(learned, fixed)


def split_adapters(network: Transformer) -> tuple[Transformer, Transformer]:
    """Split a transformer into the adapters, which learn, and the frozen rest; `combine_adapters` is the way back."""
    frozen = jax.tree_util.tree_map_with_path(lambda path, _: not is_adapter(path), network)
    rest, adapters = equinox.partition(network, frozen)
    return adapters, rest


def is_adapter(path: tuple[Any, ...]) -> bool:
    """Return whether a leaf's path is that of an adapter."""
    return getattr(path[-1], "name", None) in ("lora_a", "lora_b")


def map_projections(network: Transformer, change: Callable[[int, str, Projection], Projection]) -> Transformer:
    """Return the transformer with each projection of each block changed, by its layer and name."""

    def block(layer: int, old: Block) -> Block:
        names = tuple(projections(network.architecture, layer))
        new = [change(layer, name, getattr(old, name)) for name in names]
        return equinox.tree_at(lambda one: [getattr(one, name) for name in names], old, new)

    blocks = tuple(block(layer, old) for layer, old in enumerate(network.blocks))
    return equinox.tree_at(lambda one: one.blocks, network, blocks)
