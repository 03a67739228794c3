"""Checkpoints: whole or refused, after any damage to the file."""

import builtins
import errno
import io
import json
import os
import pickle
import random
import tracemalloc
import zipfile
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import differing

from forage.core import checkpoint, prng
from forage.core.types import ForageError


class Tree(NamedTuple):
    key: jax.Array
    other_key: jax.Array  # of JAX's own generator, as an environment of somebody's may have
    weights: dict
    flag: jax.Array
    nothing: tuple


@pytest.fixture
def tree():
    weights = {"a": jnp.arange(6.0).reshape(2, 3), "b": jnp.float32(np.nan)}
    return Tree(jax.random.split(prng.key(3), 2), jax.random.key(4), weights, jnp.array([True, False]), ())


@pytest.fixture
def path(tmp_path, tree):
    path = tmp_path / "checkpoints" / "1.npz"
    checkpoint.save_tree(path, tree, {"steps": 12})
    return path


def test_what_was_saved_is_loaded_bit_for_bit(path, tree):
    loaded, header = checkpoint.load_tree(path, jax.eval_shape(lambda: tree))
    assert differing(loaded, tree) == []
    draws = [jax.random.bits(key) for tree in (tree, loaded) for key in (tree.key[1], tree.other_key)]
    assert draws[:2] == draws[2:]
    assert header["steps"] == 12
    assert checkpoint.read_header(path)["steps"] == 12
    assert [p.name for p in path.parent.iterdir()] == ["1.npz"]  # no temporary file stays


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "int4"])
def test_numbers_of_few_bits_are_kept(tmp_path, dtype):
    """Including types unknown to NumPy itself, and arrays of mostly zeros."""
    tree = {"one": jnp.asarray(3, dtype), "few": jnp.arange(-3, 4).astype(dtype), "zeros": jnp.zeros(200_000, dtype)}
    checkpoint.save_tree(tmp_path / "1.npz", tree, {})
    loaded = checkpoint.load_tree(tmp_path / "1.npz", tree)[0]
    assert {name: leaf.dtype for name, leaf in loaded.items()} == dict.fromkeys(tree, jnp.dtype(dtype))
    assert differing(loaded, tree) == []
    other = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.uint8), tree)
    with pytest.raises(ForageError, match=f"is {dtype}.* there and uint8"):
        checkpoint.load_tree(tmp_path / "1.npz", other)


def test_what_lies_on_several_devices_is_saved_whole(tmp_path):
    devices = jax.local_devices()[:2]
    assert len(devices) == 2
    mesh = jax.sharding.Mesh(np.array(devices), ("seed",))
    values = np.arange(24.0, dtype=np.float32).reshape(4, 3, 2)
    places = {"all": jax.P("seed"), "second": jax.P(None, None, "seed"), "each": jax.P()}
    tree = {name: jax.device_put(values, jax.sharding.NamedSharding(mesh, place)) for name, place in places.items()}
    checkpoint.save_tree(tmp_path / "1.npz", tree, {})
    for name, loaded in checkpoint.load_tree(tmp_path / "1.npz", tree)[0].items():
        np.testing.assert_array_equal(loaded, values, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool"])
def test_zeros_take_no_room(tmp_path, dtype):
    """A memory that is nearly empty; its last bytes, which fill no block, and a minus zero are kept."""
    leaf = jnp.zeros((2, 300_001), dtype).at[1, 7].set(True).at[1, -1].set(True)
    tree = {"memory": leaf.at[0, 9].set(-0.0) if dtype == "float32" else leaf, "full": jnp.ones((400_000,), dtype)}
    checkpoint.save_tree(tmp_path / "a.npz", tree, {})
    assert differing(checkpoint.load_tree(tmp_path / "a.npz", tree)[0], tree) == []
    full, blocks = tree["full"].nbytes, 3 * checkpoint.BLOCK
    assert full < (tmp_path / "a.npz").stat().st_size < full + blocks + 4096 < full + leaf.nbytes


def test_files_of_the_first_format_are_read(path, tree, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT", "forage-checkpoint-1")
    monkeypatch.setattr(checkpoint, "_pack_leaf", lambda leaf: {"leaf": leaf})
    checkpoint.save_tree(path, tree, {"steps": 3})
    monkeypatch.undo()
    assert differing(checkpoint.load_tree(path, tree)[0], tree) == []


class OtherOrder(NamedTuple):
    """The fields of `Tree` in another order."""

    nothing: tuple
    flag: jax.Array
    weights: dict
    other_key: jax.Array
    key: jax.Array


def test_leaves_are_found_by_name_in_any_order(path, tree):
    like = OtherOrder(tree.nothing, tree.flag, tree.weights, tree.other_key, tree.key)
    assert differing(checkpoint.load_tree(path, like)[0], like) == []


def test_a_truncated_file_is_refused_at_every_length(path, tree):
    data = path.read_bytes()
    for length in sorted({*range(0, len(data), 97), 1, len(data) - 1, len(data) // 2}):
        path.write_bytes(data[:length])
        with pytest.raises(ForageError, match="not a whole Forage checkpoint"):
            checkpoint.load_tree(path, tree)


def test_a_damaged_file_is_refused_or_harmless(path, tree):
    """Any flipped bit gives a `ForageError`, or the same numbers if the bit does not matter."""
    data, draw, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(400):
        damaged = bytearray(data)
        damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            loaded, _ = checkpoint.load_tree(path, tree)
        except ForageError:
            refused += 1
        else:
            assert differing(loaded, tree) == []
    assert refused > 100


def test_foreign_files_are_refused(tmp_path, tree):
    files = {name: tmp_path / f"{name}.npz" for name in ("text", "pickle", "npy", "npz", "object", "format", "folder")}
    files["text"].write_text("hello")
    files["pickle"].write_bytes(pickle.dumps({"a": 1}))
    with open(files["npy"], "wb") as file:
        np.save(file, np.arange(3))
    np.savez(files["npz"], a=np.arange(3))
    np.savez(files["object"], header=np.array([{}], object))
    header = np.frombuffer(json.dumps({"format": "other-1"}).encode(), np.uint8)
    np.savez(files["format"], header=header, names=header)
    files["folder"].mkdir()
    for name, file in files.items():
        with pytest.raises(ForageError, match="another format" if name == "format" else "not a whole") as caught:
            checkpoint.load_tree(file, tree)
        assert "\n" not in str(caught.value)
    with pytest.raises(ForageError, match="There is no checkpoint"):
        checkpoint.load_tree(tmp_path / "nowhere.npz", tree)


def test_nothing_in_a_file_is_run(tmp_path, tree):
    class Trap:
        def __reduce__(self):
            return (exec, ("import builtins; builtins.trapped = True",))

    path = tmp_path / "trap.npz"
    np.savez(path, header=np.array([Trap()], object), names=np.array([Trap()], object))
    with pytest.raises(ForageError):
        checkpoint.load_tree(path, tree)
    assert not hasattr(builtins, "trapped")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t._replace(weights=t.weights | {"a": jnp.zeros((2, 4))}), r"other sizes.*'a'.*\[2, 3\].*\[2, 4\]"),
        (lambda t: t._replace(flag=jnp.zeros(2, jnp.int32)), "other sizes.*flag is bool.*int32"),
        (lambda t: t._replace(key=jax.random.split(t.key[0], 5)), r"other sizes.*key"),
        (lambda t: t._replace(weights=t.weights | {"c": jnp.zeros(())}), r"lacks .*'c'"),
        (lambda t: t._replace(weights={"a": t.weights["a"]}), r"holds .*'b'.*unknown here"),
    ],
)
def test_other_parts_and_sizes_are_named(path, tree, change, said):
    with pytest.raises(ForageError, match=said):
        checkpoint.load_tree(path, change(tree))


def test_a_full_disk_leaves_the_old_file(path, tree, monkeypatch):
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ForageError, match="No space left on device"):
        checkpoint.save_tree(path, tree._replace(flag=~tree.flag), {"steps": 13})
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["1.npz"]


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path, tree):
    (tmp_path / "file").write_text("")
    with pytest.raises(ForageError, match="Could not save"):
        checkpoint.save_tree(tmp_path / "file" / "below.npz", tree, {})


def craft(path, tree, **entries):
    """Save a tree, and more entries of the archive as they are given: a header, and the bytes that follow it."""
    checkpoint.save_tree(path, tree, {"steps": 1})
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (held | {f"{name}.npy": data for name, data in entries.items()}).items():
            archive.writestr(name, data)


def entry(descr, shape, data=b""):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue() + data


def test_what_is_read_is_bounded_by_what_is_expected(tmp_path, monkeypatch):
    """A header of petabytes, blocks of zeros in a few bytes, and data compressed ten thousandfold."""
    monkeypatch.setattr(checkpoint, "MOST_JSON", 1 << 20)
    path, tree = tmp_path / "1.npz", {"a": jnp.zeros(3), "b": jnp.arange(4)}
    zeros = {"filled0": entry("|b1", (1 << 18,), bytes(1 << 18)), "bytes0": entry("|u1", (5,), bytes(5))}
    names = entry("|u1", (16,), b'["x", "[\'b\']"]  ')
    cases = [
        {"leaf0": entry("|u1", (1 << 60,), b"x")},
        {"leaf0": entry("|u1", (1 << 22,), bytes(1 << 22))},
        {"leaf0": entry("<f4", (-3,), bytes(12))},
        {"leaf0": entry("|O", (3,), bytes(24))},
        {"like0": entry("|u1", (0, (1 << 34) + 5)), "names": names, **zeros},
        {"type0": entry("|u1", (6,), b"object")},
        {"header": entry("|u1", (100_000,), b"[" * 100_000)},
        {"header": entry("|u1", (1 << 22,), bytes(1 << 22))},
    ]
    tracemalloc.start()
    for case in cases:
        craft(path, tree, **case)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        with pytest.raises(ForageError, match=r"is not a whole Forage checkpoint|written with other sizes|lacks"):
            checkpoint.load_tree(path, tree)
        assert tracemalloc.get_traced_memory()[1] - before < 3 << 20, case.keys()
    tracemalloc.stop()
    craft(path, tree)  # deflated, as others may write it
    assert differing(checkpoint.load_tree(path, tree)[0], tree) == []
    assert {name: leaf.shape for name, leaf in checkpoint.load_leaves(path).items()} == {"['a']": (3,), "['b']": (4,)}


@pytest.mark.parametrize(
    ("former", "today"),
    [
        (".pending.aux.log_probability", ".pending.policy_info.log_probability"),
        ("[0].learner.memory.ring.note[1]", "[0].learner.memory.ring.rewards_info[1]"),
        (".pending.memo", ".pending.behaviour_info"),
        (".pool.starts.mark", ".pool.starts.start_id"),
        ("[0].starts.marks.depth", "[0].starts.start_ids.depth"),
        (".learner.agent.aux", ".learner.agent.aux"),  # an agent names its own fields
        (".actors.env_state.marks", ".actors.env_state.marks"),
        (".learner.memory.notes", ".learner.memory.notes"),
    ],
)
def test_leaves_of_earlier_versions_have_the_names_of_today(former, today, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT", "forage-checkpoint-2")
    path = tmp_path / "one.npz"
    monkeypatch.setattr(checkpoint, "named_leaves", lambda tree: [(former, np.arange(3))])
    checkpoint.save_tree(path, {}, {})
    monkeypatch.undo()
    assert list(checkpoint.load_leaves(path)) == [today]
