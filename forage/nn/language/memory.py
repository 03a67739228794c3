"""The memory that a language model takes while it writes and learns, by formula.

    gradients   two numbers for each weight that learns: its gradient, and its step
    layers      what a gradient keeps of the layers: all that they computed, or, if they are computed anew, the input of
                each and all of one
    logits      of as many tokens as become logits at once, with their distribution and gradient
    cache       keys and values of all tokens, while answers are written

`benchmarks/language_memory.py` compares these with the report of the compiler.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from forage.nn.language.architecture import Architecture
from forage.nn.language.attention import BLOCK, WHOLE
from forage.nn.language.generate import chunk_size
from forage.nn.transformer import Transformer

KEPT = 2 * 2**30
"""The bytes of all layers, kept for a gradient, above which layers are computed a second time instead."""

DISTRIBUTIONS = 6
"""Arrays of the size of the logits that their gradient needs at once."""


def layer_bytes(architecture: Architecture, rows: int, time: int, itemsize: int) -> int:
    """Return the bytes that a gradient keeps of one layer, if that is not computed a second time.

    Of each token that is the input of both norms, both norms in float32 and rounded, queries and keys before and after
    they are turned, values, the output of attention, and four arrays of the MLP; and, where attention takes all queries
    at once, its weights.
    """
    size, width = architecture.size, architecture.width
    own, shared = architecture.heads * size, architecture.kv_heads * size
    inner = architecture.chosen * architecture.expert_inner if architecture.experts else architecture.inner
    numbers = 4 * width + 3 * own + 3 * shared + 4 * inner
    weights = architecture.heads * time * (4 + itemsize) if time <= WHOLE else 0
    return rows * time * (numbers * itemsize + 2 * width * 4 + weights)


def pays_remat(network: Transformer, rows: int, time: int) -> bool:
    """Return whether a gradient would keep more than `KEPT` bytes of the layers for texts of this length."""
    itemsize = np.dtype(network.dtype).itemsize
    return network.architecture.layers * layer_bytes(network.architecture, rows, time, itemsize) > KEPT


def update_bytes(
    network: Transformer, learned: Any, rows: int, context: int, new: int, remat: bool | None, chunk: int | None
) -> dict[str, int]:
    """Return the bytes of an update from this number of answers, by their use.

    `learned`: the weights that learn. `remat` and `chunk` are those of an agent.
    """
    architecture, itemsize = network.architecture, np.dtype(network.dtype).itemsize
    time = context + new
    one = layer_bytes(architecture, rows, time, itemsize)
    block = rows * architecture.heads * min(BLOCK, time) * time * (4 + itemsize) if time > WHOLE else 0
    anew = pays_remat(network, rows, time) if remat is None else remat
    inputs = rows * time * architecture.width * itemsize
    at_once = chunk_size(chunk, rows * new, architecture.vocabulary)
    return {
        "gradients": 2 * tree_bytes(learned),
        "layers": block + (architecture.layers * inputs + one if anew else architecture.layers * one),
        "logits": DISTRIBUTIONS * 4 * at_once * architecture.vocabulary,
    }


def cache_bytes(network: Transformer, rows: int, time: int) -> int:
    """Return the bytes of the keys and values of texts."""
    architecture = network.architecture
    numbers = 2 * architecture.layers * architecture.kv_heads * architecture.size
    return rows * time * numbers * np.dtype(network.dtype).itemsize


def tree_bytes(tree: Any) -> int:
    """Return the bytes of a tree of shapes."""
    return sum(x.size * np.dtype(x.dtype).itemsize for x in jax.tree.leaves(tree))
