"""A folder of uncompressed arrays, for data larger than memory: NAME.npy for each array, and `header.json`.

The header has the shape, dtype and SHA-256 of each array, so a folder is opened without reading what it holds: arrays
were checked when they were written, and their sizes are checked when they are opened. `numpy.load(..., mmap_mode="r")`
reads each. A `/` in an array's name (the parts of a dictionary) is written as `%2F`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from forage.core.plain import dumps
from forage.core.types import ForageError
from forage.data import files
from forage.data.logged import Transitions

FORMAT = "forage-folder-1"
HEADER = "header.json"


def place(folder: Path, name: str) -> Path:
    """Return the file of an array."""
    return folder / f"{name.replace('/', '%2F')}.npy"


def read_header(path: Path) -> dict[str, Any]:
    """Read a folder's header. Raise `ForageError` if it is not whole."""
    try:
        header = json.loads((path / HEADER).read_text())
    except (OSError, ValueError) as error:
        raise ForageError(f"{path} is not a whole data set: its header cannot be read ({error}).") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ForageError(f"{path} has no header of a folder of arrays ({FORMAT}); forage data convert writes one.")
    for name in ("spec", "arrays"):
        if not isinstance(header.get(name), dict):
            raise ForageError(f"{path} is not a whole data set: its header has no {name}.")
    return header


def map_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays of a folder through a memory map, and its header. Arrays are read only on access."""
    header, arrays = read_header(path), {}
    for name, said in header["arrays"].items():
        try:
            arrays[name] = np.load(place(path, name), mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise ForageError(f"{path} is not a whole data set: {name} cannot be read ({error}).") from None
        if list(arrays[name].shape) != said["shape"] or arrays[name].dtype.str != said["dtype"]:
            raise ForageError(
                f"{path} is not a whole data set: {name} is {arrays[name].dtype} {arrays[name].shape}, and its header "
                f"says {np.dtype(said['dtype'])} {tuple(said['shape'])}."
            )
    return arrays, header


def read_folder(path: Path) -> tuple[Transitions, dict[str, Any]]:
    """Read a folder into memory and check all of it, also its hashes."""
    arrays, header = map_arrays(path)
    for name, said in header["arrays"].items():
        if digest(place(path, name)) != said["sha256"]:
            raise ForageError(f"{path} is not the data set that was written: {name} has changed.")
    plain = {name: np.array(array) for name, array in arrays.items()}
    return files.transitions_of(path, plain, header), {k: v for k, v in header.items() if k not in ("arrays", "format")}


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Writer:
    """A new folder that is filled part by part, so that no more than a part is in memory. Whole or not at all.

    >>> with Writer(Path("large"), header) as writer:  # doctest: +SKIP
    ...     for part in parts:
    ...         writer.add(part)
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        if path.exists():
            raise ForageError(f"{path} exists already; remove it, or name another folder.")
        self.path, self.header = path, dict(header)
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self.open: dict[str, Any] = {}
        self.shapes: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
        self.transitions = self.episodes = 0

    def __enter__(self) -> Writer:
        try:
            self.temporary.mkdir(parents=True)
        except OSError as error:
            raise ForageError(f"Could not save {self.path}: {error.strerror or error}.") from error
        return self

    def add(self, data: Transitions) -> None:
        """Append whole episodes. Raise `ForageError` if the arrays have other names, shapes or types."""
        arrays = files.arrays_of(data)
        self.add_arrays(arrays | {"episode": arrays["episode"] + self.episodes}, data.episodes)

    def add_arrays(self, arrays: Mapping[str, np.ndarray], episodes: int) -> None:
        """Append rows, named as in files, in which this number of episodes end. Episodes count on from before."""
        shapes = {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}
        self.shapes = self.shapes or shapes
        if shapes != self.shapes:
            differ = next(name for name in {**shapes, **self.shapes} if shapes.get(name) != self.shapes.get(name))
            raise ForageError(
                f"The data sets do not belong together: {differ} is {array_text(self.shapes.get(differ))} in the "
                f"first and {array_text(shapes.get(differ))} in another."
            )
        try:
            for name, array in arrays.items():
                if name not in self.open:
                    self.open[name] = open(place(self.temporary, name), "wb")  # noqa: SIM115  # closed in `__exit__`
                    self.open[name].write(head(0, *shapes[name]))
                self.open[name].write(np.ascontiguousarray(array).data)
        except OSError as error:
            raise ForageError(f"Could not save {self.path}: {error.strerror or error}.") from error
        self.transitions, self.episodes = self.transitions + len(arrays["reward"]), self.episodes + episodes

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                self.finish()
        except OSError as trouble:
            raise ForageError(f"Could not save {self.path}: {trouble.strerror or trouble}.") from trouble
        finally:
            for file in self.open.values():
                file.close()
            shutil.rmtree(self.temporary, ignore_errors=True)

    def finish(self) -> None:
        """Write the lengths and the hashes of the arrays, and rename the folder to its final name."""
        arrays = {}
        for name, file in self.open.items():
            shape, dtype = self.shapes[name]
            file.seek(0)
            file.write(head(self.transitions, shape, dtype))
            file.close()
            hashed = digest(place(self.temporary, name))
            arrays[name] = {"shape": [self.transitions, *shape], "dtype": dtype.str, "sha256": hashed}
        counts = {"transitions": self.transitions, "episodes": self.episodes}
        header = {**self.header, **counts, "format": FORMAT, "arrays": arrays}
        (self.temporary / HEADER).write_text(dumps(header, indent=1) + "\n")
        os.replace(self.temporary, self.path)


def array_text(shape: tuple[tuple[int, ...], np.dtype] | None) -> str:
    """Return an array's type and shape for a message."""
    return "not there" if shape is None else f"{shape[1]} {shape[0]}"


def head(count: int, shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """Return the first bytes of an array's file, as many for any count."""
    words = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': {(count, *shape)!r}, }}".encode()
    return b"\x93NUMPY\x01\x00" + (246).to_bytes(2, "little") + words.ljust(245) + b"\n"
