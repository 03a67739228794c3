"""Files of arrays: written whole or not at all, and read without running any code from them."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.errors import ForageError


def write_atomically(path: Path, content: bytes | Callable[[Any], Any]) -> None:
    """Write bytes, or call `content(file)`, in a temporary neighbour and rename it: `path` is never half written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    content(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ForageError(f"Could not save {path}: {error.strerror or error}.") from error
    if os.name == "posix":  # make the rename itself durable, where the file system can
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):
                os.fsync(directory)
        finally:
            os.close(directory)


@contextlib.contextmanager
def open_archive(path: str | Path) -> Iterator[Archive]:
    """Open an archive of arrays (`.npz`) and close it, also a damaged one."""
    with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        yield Archive(archive)


class Archive(Mapping[str, np.ndarray]):
    """The arrays of a `.npz`, each checked before it is read: no objects, and no size above the declared one or the
    memory.

    A few bytes can promise petabytes, or be decompressed to gigabytes.
    """

    def __init__(self, archive: zipfile.ZipFile):
        self.archive = archive
        self.entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}

    @property
    def files(self) -> list[str]:
        """Return the names of the arrays, as NumPy calls them."""
        return list(self.entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def describe_array(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
        """Return the shape and type of an array, and how many bytes it is. Raise `ValueError` if that is not so."""
        entry = self.entries[name]
        with self.archive.open(entry) as file:
            version = np.lib.format.read_magic(file)
            if version not in HEADERS:
                raise ValueError(f"{name} has a header of another version")
            shape, _, dtype = HEADERS[version](file)
            size = math.prod(shape) * dtype.itemsize
            if dtype.hasobject:
                raise ValueError(f"{name} holds Python objects, which are not read")
            if any(n < 0 for n in shape) or size != entry.file_size - file.tell():
                raise ValueError(f"{name} says that it is {size:,} bytes, and is {entry.file_size - file.tell():,}")
        check_size(name, size)
        return shape, dtype, size

    def __getitem__(self, name: str) -> np.ndarray:
        self.describe_array(name)
        with self.archive.open(self.entries[name]) as file:
            return np.lib.format.read_array(file, allow_pickle=False)


HEADERS: dict[tuple[int, int], Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@functools.cache
def physical_memory() -> int:
    """Return the bytes of the machine's memory; where it does not say, a terabyte."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def check_size(name: str, size: int) -> None:
    """Raise `ValueError` if an array is larger than the machine's memory."""
    if size > physical_memory():
        raise ValueError(f"{name} would be {size:,} bytes, more than this machine's memory")
