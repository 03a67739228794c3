"""Arrays that several processes read and write: a tree of them in one block of shared memory."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shutil
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from forage.core.errors import ForageError

ALIGNED = 64  # bytes, a line of the processor's cache: two processes do not write to one
SHARED_MEMORY = Path("/dev/shm")  # the file system that Linux keeps shared memory in


class Block:
    """A tree of arrays in shared memory. Its creator also frees it; other processes open it by its name."""

    def __init__(
        self,
        shapes: PyTree[jax.ShapeDtypeStruct],
        name: str | None = None,
        what: str = "The workers' exchange",
        advice: str = "fewer environments",
    ):
        """Make a block of zeros, or open the one of this name.

        Raise `ForageError` if the system has no room for it. The sentence begins with `what` and gives `advice`.
        """
        leaves, structure = jax.tree.flatten(shapes)
        sizes = [math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in leaves]
        starts = np.cumsum([0, *(-(-size // ALIGNED) * ALIGNED for size in sizes)]).tolist()
        self.mine = name is None
        self.memory = reserve(max(starts[-1], 1), what, advice) if name is None else SharedMemory(name)
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
            with contextlib.suppress(FileNotFoundError):  # somebody else has removed its name
                self.memory.unlink()


def reserve(size: int, what: str, advice: str) -> SharedMemory:
    """Return new shared memory whose pages are all there. Raise `ForageError` if there is no room for them.

    The system hands pages out when they are first written, and ends a process by SIGBUS that writes where none is left.
    So they are asked for here, and nobody else can take them later.
    """
    memory = None
    try:
        memory = SharedMemory(create=True, size=size)
        path = SHARED_MEMORY / memory.name
        if path.exists():  # elsewhere shared memory is swapped out and has no file system of its own
            fill(path, size)
    except OSError as error:
        if memory is not None:
            memory.close()
            memory.unlink()
        raise ForageError(lacking(size, what, advice, error)) from None
    return memory


def fill(path: Path, size: int) -> None:
    """Have a file's pages made. Raise `OSError` if there is no room for them."""
    with open(path, "r+b", buffering=0) as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except AttributeError:
            pass
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
        zeros = bytes(min(size, 1 << 20))
        for start in range(0, size, len(zeros)):  # which a file system knows that cannot reserve
            os.pwrite(file.fileno(), zeros[: size - start], start)


def lacking(size: int, what: str, advice: str, error: OSError) -> str:
    """Describe the lack of shared memory, and a remedy."""
    try:
        free = f"{SHARED_MEMORY} has {megabytes(shutil.disk_usage(SHARED_MEMORY).free)}"
    except OSError:
        free = f"{SHARED_MEMORY} cannot be used"
    return (
        f"{what} takes {megabytes(size)} of shared memory, and {free} ({error.strerror or error}); give {advice}, or "
        f"more of that memory (docker run --shm-size {-(-2 * size // 2**20) + 64}m)."
    )


def megabytes(size: int) -> str:
    """Return a number of bytes as megabytes, small ones with a digit behind the point."""
    return f"{size / 1e6:,.0f} MB" if size >= 1e7 else f"{size / 1e6:,.1f} MB"
