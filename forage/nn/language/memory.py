"""The memory that a language model takes while it writes and learns, by formula.

    gradients   two numbers for each weight that learns: its gradient, and its step
    layers      what a gradient keeps of the layers: all that they computed, or, if they are computed anew, the input of
                each and all of one
    logits      of as many tokens as become logits at once, with their distribution and gradient
    cache       keys and values of all tokens, while answers are written
    gathered    on a mesh of devices, the weights of two layers and the table of tokens, which lie elsewhere in part

On a mesh the bytes are those of each device (`partition.py`): of its rows and, where they divide, of its heads, units
and tokens.

`benchmarks/language_memory.py` compares these with the report of the compiler.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from forage.core.mesh import ONE, Shape, part_of, partition_tree
from forage.nn.language.architecture import Architecture
from forage.nn.language.attention import BLOCK, WHOLE
from forage.nn.language.generate import chunk_size
from forage.nn.language.partition import cache_axes, divides
from forage.nn.transformer import Transformer

KEPT = 2 * 2**30
"""The bytes of all layers, kept for a gradient, above which layers are computed a second time instead."""

DISTRIBUTIONS = 6
"""Arrays of the size of the logits that their gradient needs at once."""


def own_part(architecture: Architecture, units: str, shape: Shape) -> int:
    """Return the number of units that a device computes: its part of those that `model` divides, else all."""
    return getattr(architecture, units) // (shape.model if divides(architecture, units, shape.model) else 1)


def layer_bytes(architecture: Architecture, rows: int, time: int, itemsize: int, shape: Shape = ONE) -> int:
    """Return the bytes that a gradient keeps of one layer, if that is not computed a second time.

    Of each token that is the input of both norms, both norms in float32 and rounded, queries and keys before and after
    they are turned, values, the output of attention, and four arrays of the MLP; and, where attention takes all queries
    at once, its weights.
    """
    size, width = architecture.size, architecture.width
    heads = own_part(architecture, "heads", shape)
    own, shared = heads * size, own_part(architecture, "kv_heads", shape) * size
    inner = own_part(architecture, "inner", shape)
    if architecture.experts:
        inner = architecture.chosen * own_part(architecture, "expert_inner", shape)
    numbers = 4 * width + 3 * own + 3 * shared + 4 * inner
    weights = heads * time * (4 + itemsize) if time <= WHOLE else 0
    return rows * time * (numbers * itemsize + 2 * width * 4 + weights)


def pays_remat(network: Transformer, rows: int, time: int) -> bool:
    """Return whether a gradient would keep more than `KEPT` bytes of the layers for texts of this length."""
    itemsize = np.dtype(network.dtype).itemsize
    return network.architecture.layers * layer_bytes(network.architecture, rows, time, itemsize) > KEPT


def update_bytes(
    network: Transformer,
    learned: Any,
    rows: int,
    context: int,
    new: int,
    remat: bool | None,
    chunk: int | None,
    shape: Shape = ONE,
) -> dict[str, int]:
    """Return the bytes of an update from this number of answers, by their use, on each device of a mesh.

    `learned`: the weights that learn. `remat` and `chunk` are those of an agent.
    """
    architecture, itemsize = network.architecture, np.dtype(network.dtype).itemsize
    time, rows = context + new, -(-rows // shape.env)
    one = layer_bytes(architecture, rows, time, itemsize, shape)
    heads = own_part(architecture, "heads", shape)
    block = rows * heads * min(BLOCK, time) * time * (4 + itemsize) if time > WHOLE else 0
    anew = pays_remat(network, rows, time) if remat is None else remat
    inputs = rows * time * architecture.width * itemsize
    at_once = -(-chunk_size(chunk, rows * shape.env * new, architecture.vocabulary) // shape.env)
    found = {
        "gradients": 2 * tree_bytes(learned, shape),
        "layers": block + (architecture.layers * inputs + one if anew else architecture.layers * one),
        "logits": DISTRIBUTIONS * 4 * at_once * own_part(architecture, "vocabulary", shape),
    }
    if shape.of_seed == 1:
        return found
    ends = tree_bytes((network.table, network.head))
    gathered = 2 * max(map(tree_bytes, network.blocks)) + ends
    return found | {"gathered": gathered // shape.model}


def cache_bytes(network: Transformer, rows: int, time: int, shape: Shape = ONE) -> int:
    """Return the bytes of the keys and values of texts, on each device of a mesh."""
    architecture = network.architecture
    numbers = 2 * architecture.layers * architecture.kv_heads * architecture.size
    whole = rows * time * numbers * np.dtype(network.dtype).itemsize
    return whole // part_of(cache_axes(rows, architecture, shape), shape)


def tree_bytes(tree: Any, shape: Shape = ONE) -> int:
    """Return the bytes of a tree of shapes, on each device of a mesh."""
    sizes = jax.tree.map(
        lambda x, spec: x.size * np.dtype(x.dtype).itemsize // part_of(spec, shape), tree, partition_tree(tree, shape)
    )
    return sum(jax.tree.leaves(sizes))
