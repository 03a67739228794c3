"""Saving and loading pytrees of arrays: atomic, checked, and without running any code from the file."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from forage.core import prng
from forage.core.mesh import bits, is_key
from forage.core.plain import dumps
from forage.core.types import ForageError

FORMAT = "forage-checkpoint-2"
READABLE = (FORMAT, "forage-checkpoint-1")  # the first had every array whole
BLOCK = 1 << 16  # bytes


class Bytes:
    """Stands in `like` for bytes of any length."""


def named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    """Return each leaf with its path, such as `.learner.agent.network.actor.weight`."""
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]]


def generator_of(key: Any) -> Any:
    """Return the generator that random keys (or their shapes) are of: ours, or one of JAX's in a person's own part."""
    known = (prng.FUSED, "threefry2x32", "rbg", "unsafe_rbg")
    return next(g for g in known if jax.eval_shape(functools.partial(jax.random.key, impl=g), 0).dtype == key.dtype)


def write_atomically(path: Path, write: Any) -> None:
    """Call `write(file)` on a temporary neighbour and renames it: `path` holds old bytes or new, never half."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                write(file)
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


Look = Callable[[str, np.ndarray], None]


def save(
    path: Path, tree: PyTree, header: dict[str, Any], look: Look = lambda name, array: None, rows: int | None = None
) -> None:
    """Save the leaves of `tree` and a small JSON `header`, as `numpy.savez` would, but with one leaf in memory.

    `look` sees each leaf's name and array before it is written; what it raises leaves `path` as it was.
    `rows`: so many of each leaf's first rows are saved; unless said, all.
    """
    leaves = named_leaves(tree)
    text, names = (
        np.frombuffer(dumps(words).encode(), np.uint8)
        for words in ({"format": FORMAT, **header}, [name for name, _ in leaves])
    )

    def write(file: Any) -> None:
        with zipfile.ZipFile(file, "w") as archive:

            def add(name: str, array: np.ndarray) -> None:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)

            add("header", text)
            add("names", names)
            for i, (name, leaf) in enumerate(leaves):
                whole = _on_host(leaf)[:rows] if rows else _on_host(leaf)
                look(name, whole)
                for part, array in _packed(whole).items():
                    add(f"{part}{i}", array)

    write_atomically(path, write)


def _on_host(leaf: Any) -> np.ndarray:
    """Return the leaf in the host's memory. JAX would keep what it gathers from several devices as long as the leaf."""
    leaf = bits(leaf)
    if not isinstance(leaf, jax.Array) or leaf.is_fully_replicated:
        return np.asarray(leaf)
    array = np.empty(leaf.shape, leaf.dtype)
    for shard in leaf.addressable_shards:
        array[shard.index] = shard.data
    return array


def _packed(leaf: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays that stand for a leaf: itself, or its blocks that hold anything, where most of them hold zeros.

    A memory that has begun to fill is all but empty, and would be gigabytes of zeros in every checkpoint. Numbers that
    are not NumPy's own, such as bfloat16, are kept as their bits beside the name of their type.
    """
    if leaf.dtype.isbuiltin == 2:
        bits = np.asarray(leaf, order="C").view(f"u{leaf.dtype.itemsize}")
        return {**_packed(bits), "type": np.frombuffer(leaf.dtype.name.encode(), np.uint8)}
    flat = np.ascontiguousarray(leaf).reshape(-1).view(np.uint8)
    blocks = flat[: flat.size // BLOCK * BLOCK].reshape(-1, BLOCK)
    filled = blocks.view(np.uint64).max(axis=1, initial=0) > 0
    if 2 * filled.sum() >= filled.size:
        return {"leaf": leaf}
    rest = flat[blocks.size :]
    return {
        "filled": filled,
        "bytes": np.concatenate([blocks[filled].reshape(-1), rest]),
        "like": np.empty((0, *leaf.shape), leaf.dtype),  # says shape and type, and takes no room
    }


def _unpacked(file: Mapping[str, np.ndarray], i: int) -> np.ndarray:
    leaf = file[f"leaf{i}"] if f"leaf{i}" in file else _with_its_zeros(file, i)
    return leaf.view(file[f"type{i}"].tobytes().decode()) if f"type{i}" in file else leaf


def _with_its_zeros(file: Mapping[str, np.ndarray], i: int) -> np.ndarray:
    like, filled, packed = file[f"like{i}"], file[f"filled{i}"], file[f"bytes{i}"]
    leaf = np.zeros(like.shape[1:], like.dtype)
    flat = leaf.reshape(-1).view(np.uint8)
    size, count = filled.size * BLOCK, int(filled.sum()) * BLOCK
    flat[:size].reshape(-1, BLOCK)[filled] = packed[:count].reshape(-1, BLOCK)
    flat[size:] = packed[count:]
    return leaf


def read_header(path: Path) -> dict[str, Any]:
    return _read(path)[0]


def arrays(path: Path) -> dict[str, np.ndarray]:
    """Return every leaf that was saved, by its path."""
    return _read(path, "")[1]


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[Any]:
    """Open an archive of arrays (`.npz`) and close it, also a damaged one, which NumPy leaves open."""
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        yield archive


def _read(path: Path, prefix: str | None = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header, and those leaves whose path begins with `prefix`: all with an empty one, without one none."""
    try:
        with opened(path) as file:
            header = json.loads(file["header"].tobytes())
            if header["format"] not in READABLE:
                raise ForageError(f"{path} is a checkpoint of another format ({header['format']}).")
            if prefix is None:
                return header, {}
            names = json.loads(file["names"].tobytes())
            wanted = [(i, name) for i, name in enumerate(names) if name.startswith(prefix)]
            return header, {name: _unpacked(file, i) for i, name in wanted}  # each checked by its CRC
    except FileNotFoundError:
        raise ForageError(f"There is no checkpoint {path}.") from None
    except ForageError:
        raise
    except Exception as error:  # what damaged bytes make NumPy and zipfile raise has no common type
        raise ForageError(
            f"{path} is not a whole Forage checkpoint: it is damaged, half-written or another program's file."
        ) from error


def load(path: Path, like: PyTree, prefix: str = "") -> tuple[PyTree, dict[str, Any]]:
    """Load a tree with the structure, shapes and dtypes of `like` (arrays or shapes). Return it and the header.

    `prefix` names a part of what was saved, such as `.learner.agent`: that alone is read.
    """
    header, arrays = _read(path, prefix)
    expected = [(prefix + name, leaf) for name, leaf in named_leaves(like)]
    missing = [name for name, _ in expected if name not in arrays]
    surplus = sorted(set(arrays) - {name for name, _ in expected})
    if missing or surplus:
        difference = f"lacks {missing[0]}, needed here" if missing else f"holds {surplus[0]}, unknown here"
        raise ForageError(
            f"{path} was written by other parts or another version: it {difference}. Use the version of Forage and the "
            f"parts named in {_run_of(path) / 'versions.json'} and config.json beside it, or train again."
        )
    leaves: list[Any] = []
    for name, wanted in expected:
        array = arrays.pop(name)  # so that a large leaf is not kept twice
        if isinstance(wanted, Bytes):
            leaves.append(array)
            continue
        generator = generator_of(wanted) if is_key(wanted) else None
        if generator:  # keys travel as their bits
            wanted = jax.eval_shape(jax.random.key_data, wanted)
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            raise ForageError(
                f"{path} was written with other sizes: {name} is {array.dtype}{list(array.shape)} there and "
                f"{wanted.dtype}{list(wanted.shape)} here."
            )
        array = jax.numpy.asarray(array)
        leaves.append(jax.random.wrap_key_data(array, impl=generator) if generator else array)
    return jax.tree.unflatten(jax.tree.structure(like), leaves), header


def _run_of(path: Path) -> Path:
    """Return the run that a checkpoint or an agent.npz is of."""
    return path.parent.parent if path.parent.name == "checkpoints" else path.parent
