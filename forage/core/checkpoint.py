"""Saving and loading pytrees of arrays: atomic, checked, and without running any code from the file."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from forage.core import prng
from forage.core.mesh import bits, is_key
from forage.core.plain import dumps
from forage.core.storage.archives import Archive, check_size, open_archive, write_atomically
from forage.core.types import ForageError

FORMAT = "forage-checkpoint-3"
READABLE = (FORMAT, "forage-checkpoint-2", "forage-checkpoint-1")  # the first had every array whole
FORMER = {  # fields of experience and of starts that the first two formats called otherwise
    "aux": "policy_info",
    "note": "rewards_info",
    "memo": "behaviour_info",
    "mark": "start_id",
    "marks": "start_ids",
}
FORMER_FIELD = re.compile(r"\.(aux|note|memo|mark|(?<=starts\.)marks)(?=[.\[]|$)")
BLOCK = 1 << 16  # bytes


class Bytes:
    """A placeholder in `like` for bytes of any length."""


def named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    """Return each leaf with its path, such as `.learner.agent.network.actor.weight`."""
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]]


def generator_of(key: Any) -> Any:
    """Return the generator of random keys (or of their shapes): Forage's, or one of JAX's in a part of the user."""
    known = (prng.FUSED, "threefry2x32", "rbg", "unsafe_rbg")
    return next(g for g in known if jax.eval_shape(functools.partial(jax.random.key, impl=g), 0).dtype == key.dtype)


Look = Callable[[str, np.ndarray], None]


def save_tree(
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
                for part, array in _pack_leaf(whole).items():
                    add(f"{part}{i}", array)

    write_atomically(path, write)


def _on_host(leaf: Any) -> np.ndarray:
    """Return the leaf in the host's memory. JAX would hold a copy gathered from several devices as long as the leaf."""
    leaf = bits(leaf)
    if not isinstance(leaf, jax.Array) or leaf.is_fully_replicated:
        return np.asarray(leaf)
    array = np.empty(leaf.shape, leaf.dtype)
    for shard in leaf.addressable_shards:
        array[shard.index] = shard.data
    return array


def _pack_leaf(leaf: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays that stand for a leaf: itself, or its blocks that hold anything, where most of them hold zeros.

    A memory that has begun to fill is all but empty, and would be gigabytes of zeros in every checkpoint. Numbers that
    are not NumPy's own, such as bfloat16, are kept as their bits beside the name of their type.
    """
    if leaf.dtype.isbuiltin == 2:
        bits = np.asarray(leaf, order="C").view(f"u{leaf.dtype.itemsize}")
        return {**_pack_leaf(bits), "type": np.frombuffer(leaf.dtype.name.encode(), np.uint8)}
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


def _read_shape(file: Archive, i: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type of a leaf before it is read. Raise `ValueError` if they are invalid."""
    if f"leaf{i}" in file:
        shape, dtype, _ = file.describe_array(f"leaf{i}")
    else:
        (_, *inner), dtype, _ = file.describe_array(f"like{i}")
        shape, size = tuple(inner), math.prod(inner) * dtype.itemsize
        if file.describe_array(f"filled{i}")[0] != (size // BLOCK,):
            raise ValueError("a leaf has another size than its blocks")
        check_size(f"leaf{i}", size)
    if f"type{i}" in file:
        name = file.describe_array(f"type{i}")
        if name[2] > MOST_NAME:
            raise ValueError("a type of numbers has no name")
        kind = np.dtype(file[f"type{i}"].tobytes().decode())
        if kind.itemsize != dtype.itemsize or kind.hasobject:
            raise ValueError("a leaf has another type than its bits")
        dtype = kind
    return shape, dtype


def _unpack_leaf(file: Archive, i: int) -> np.ndarray:
    leaf = file[f"leaf{i}"] if f"leaf{i}" in file else _with_its_zeros(file, i)
    return leaf.view(file[f"type{i}"].tobytes().decode()) if f"type{i}" in file else leaf


def _with_its_zeros(file: Archive, i: int) -> np.ndarray:
    shape, dtype, _ = file.describe_array(f"like{i}")
    filled, packed = file[f"filled{i}"], file[f"bytes{i}"]
    leaf = np.zeros(shape[1:], dtype)
    flat = leaf.reshape(-1).view(np.uint8)
    size, count = filled.size * BLOCK, int(filled.sum()) * BLOCK
    flat[:size].reshape(-1, BLOCK)[filled] = packed[:count].reshape(-1, BLOCK)
    flat[size:] = packed[count:]
    return leaf


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A leaf of a checkpoint before it is read: its shape and type are known, so that it need not be."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], np.ndarray]

    def select_members(self, rows: list[int]) -> Leaf:
        """Return the leaf of these members alone, `member ...`."""
        return Leaf((len(rows), *self.shape[1:]), self.dtype, lambda: self.read()[rows])

    @staticmethod
    def stack(leaves: list[Leaf]) -> Leaf:
        """Return leaves of one member each as `member ...`."""
        first = leaves[0]
        return Leaf((len(leaves), *first.shape), first.dtype, lambda: np.stack([leaf.read() for leaf in leaves]))


def read_header(path: Path) -> dict[str, Any]:
    return _leaves(path)[0]


def load_leaves(path: Path) -> dict[str, Leaf]:
    """Return every leaf that was saved, by its path."""
    return _leaves(path, "")[1]


def arrays(path: Path) -> dict[str, np.ndarray]:
    """Return every leaf that was saved, read, by its path."""
    return {name: leaf.read() for name, leaf in load_leaves(path).items()}


MOST_NAME = 64  # bytes of the name of a type of numbers
MOST_JSON = 1 << 26  # bytes of a checkpoint's own words


def _json(file: Archive, name: str) -> Any:
    if file.describe_array(name)[2] > MOST_JSON:
        raise ValueError(f"{name} is longer than it can be")
    return json.loads(file[name].tobytes())


def _leaves(path: Path, prefix: str | None = None) -> tuple[dict[str, Any], dict[str, Leaf]]:
    """Return the header, and those leaves whose path begins with `prefix`: all with an empty one, without one none."""

    def read_leaf(i: int) -> np.ndarray:
        with check_readable(path), open_archive(path) as file:
            return _unpack_leaf(file, i)  # checked by its CRC

    with check_readable(path), open_archive(path) as file:
        header = _json(file, "header")
        if header["format"] not in READABLE:
            raise ForageError(f"{path} is a checkpoint of another format ({header['format']}).")
        if prefix is None:
            return header, {}
        names = _json(file, "names")
        if header["format"] != FORMAT:
            names = [today_name(name) for name in names]
        wanted = [(i, name) for i, name in enumerate(names) if name.startswith(prefix)]
        return header, {name: Leaf(*_read_shape(file, i), functools.partial(read_leaf, i)) for i, name in wanted}


def today_name(path: str) -> str:
    """Return a leaf's path with today's names of fields; those of agents and environments keep their own."""
    if ".learner.agent" in path or ".env_state" in path:
        return path
    return FORMER_FIELD.sub(lambda found: f".{FORMER[found[1]]}", path)


@contextlib.contextmanager
def check_readable(path: Path) -> Iterator[None]:
    """Raise `ForageError` if a checkpoint is missing or damaged."""
    try:
        yield
    except FileNotFoundError:
        raise ForageError(f"There is no checkpoint {path}.") from None
    except ForageError:
        raise
    except Exception as error:  # what damaged bytes make NumPy and zipfile raise has no common type
        raise ForageError(
            f"{path} is not a whole Forage checkpoint: it is damaged, half-written or another program's file."
        ) from error


def load_tree(path: Path, like: PyTree, prefix: str = "") -> tuple[PyTree, dict[str, Any]]:
    """Load a tree with the structure, shapes and dtypes of `like` (arrays or shapes). Return it and the header.

    Numbers of 16 bits become float32 where `like` has that, which keeps their values. `prefix` names a part of what was
    saved, such as `.learner.agent`: that alone is read.
    """
    header, found = _leaves(path, prefix)
    expected = [(prefix + name, leaf) for name, leaf in named_leaves(like)]
    missing = [name for name, _ in expected if name not in found]
    surplus = sorted(set(found) - {name for name, _ in expected})
    if missing or surplus:
        difference = f"lacks {missing[0]}, needed here" if missing else f"holds {surplus[0]}, unknown here"
        raise ForageError(
            f"{path} was written by other parts or another version: it {difference}. Use the version of Forage and the "
            f"parts named in {_run_of(path) / 'versions.json'} and config.json beside it, or train again."
        )
    for name, wanted in expected:  # all sizes before any array is read
        leaf = found[name]
        if isinstance(wanted, Bytes):
            if leaf.dtype != np.uint8 or len(leaf.shape) != 1:
                raise ForageError(f"{path} was written with other sizes: {name} is no bytes there.")
            continue
        if is_key(wanted):  # keys travel as their bits
            wanted = jax.eval_shape(jax.random.key_data, wanted)
        widened = wanted.dtype == np.float32 and leaf.dtype.name in ("bfloat16", "float16")
        if leaf.shape != wanted.shape or (leaf.dtype != wanted.dtype and not widened):
            raise ForageError(
                f"{path} was written with other sizes: {name} is {leaf.dtype}{list(leaf.shape)} there and "
                f"{wanted.dtype}{list(wanted.shape)} here."
            )
    arrays: list[Any] = []
    for name, wanted in expected:
        array: Any = found[name].read()
        if not isinstance(wanted, Bytes):
            array = jax.numpy.asarray(array) if is_key(wanted) else jax.numpy.asarray(array, wanted.dtype)
            array = jax.random.wrap_key_data(array, impl=generator_of(wanted)) if is_key(wanted) else array
        arrays.append(array)
    return jax.tree.unflatten(jax.tree.structure(like), arrays), header


def _run_of(path: Path) -> Path:
    """Return the run that a checkpoint or an agent.npz is of."""
    return path.parent.parent if path.parent.name == "checkpoints" else path.parent
