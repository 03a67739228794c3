"""Arrays that several processes read and write: a tree of them in one block of shared memory."""

from __future__ import annotations

import contextlib
import math
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

ALIGNED = 64  # bytes, a line of the processor's cache: two processes do not write to one


class Block:
    """A tree of arrays in shared memory. Whoever makes it also frees it; others open it by its name."""

    def __init__(self, shapes: PyTree[jax.ShapeDtypeStruct], name: str | None = None):
        """Make a block of zeros, or open the one of this name."""
        leaves, structure = jax.tree.flatten(shapes)
        sizes = [math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in leaves]
        starts = np.cumsum([0, *(-(-size // ALIGNED) * ALIGNED for size in sizes)]).tolist()
        self.mine = name is None
        self.memory = SharedMemory(name, create=self.mine, size=max(starts[-1], 1))
        arrays = [
            np.ndarray(leaf.shape, leaf.dtype, self.memory.buf, start)
            for leaf, start in zip(leaves, starts, strict=False)
        ]
        self.arrays: Any = jax.tree.unflatten(structure, arrays)

    @property
    def name(self) -> str:
        return self.memory.name

    def close(self) -> None:
        """Let go of the arrays, which must not be touched afterwards."""
        self.arrays = None
        with contextlib.suppress(BufferError):  # where somebody still holds an array the memory goes with the process
            self.memory.close()
        if self.mine:
            self.mine = False
            self.memory.unlink()
