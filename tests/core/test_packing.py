"""Values as bytes and back: their types stay, and no name in the bytes is called."""

import collections
import enum
import json
import random
import typing
import zlib

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.core.storage import packing


class Kind(enum.Enum):
    WALL = 1


class Point(typing.NamedTuple):
    x: int
    y: float


class Thing:
    def __init__(self, name):
        self.name, self.other = name, None


class Slots:
    __slots__ = ("a", "b")


class Set:
    called = False

    def __setstate__(self, state):
        Set.called = True


class DroppedHelper:
    def __del__(self):
        pass


def with_horizon(cls):
    return cls.__module__ == __name__ and packing.is_plain(cls)


def repeat(value):
    return packing.unpack(packing.pack(value, with_horizon), with_horizon)


def test_plain_data_comes_back():
    rng = np.random.default_rng(3)
    rng.random(5)
    value = {
        "numbers": [True, 1, 2**70, -0.5, float("inf"), None, "text", b"\x00\xff", 1 + 2j, range(3), slice(1, None)],
        ("a", 1): {1, 2},
        3: frozenset({"x"}),
        "queue": collections.deque([1, 2], maxlen=2),
        "ordered": collections.OrderedDict(b=1, a=2),
        "kind": Kind.WALL,
        "point": Point(1, 2.5),
        "number": np.float32(0.1),
        "dtype": np.dtype("int16"),
        "objects": np.array([[1, "a"], [None, (2,)]], object),
    }
    found = repeat(value)
    assert str(found) == str(value) and type(found["number"]) is np.float32 and found["queue"].maxlen == 2
    assert type(found["ordered"]) is collections.OrderedDict and type(found["point"]) is Point
    for array in (
        np.arange(6.0).reshape(2, 3).T,
        np.zeros((0, 4), np.int8),
        np.array("é"),
        np.array(["ab"]),
        np.bool_([1]),
    ):
        back = repeat(array)
        assert back.dtype == array.dtype and back.shape == array.shape and np.array_equal(back, array)
        assert back.flags.writeable and back.flags.f_contiguous == array.flags.f_contiguous
    record = np.array([(1, 2.0)], [("a", "i4"), ("b", "f8", (2,))])
    assert repeat(record).dtype == record.dtype and np.array_equal(repeat(record), record)


def test_generators_go_on():
    states = np.random.RandomState(1)
    for made in (np.random.default_rng(3), np.random.Generator(np.random.MT19937(2)), random.Random(4), states):
        made.random()
        copy = repeat(made)
        assert [copy.random() for _ in range(9)] == [made.random() for _ in range(9)]
    rng = np.random.default_rng(5)
    children = rng.bit_generator.seed_seq.spawn(1)
    assert repeat(rng).spawn(1)[0].random() == rng.spawn(1)[0].random() and children


def test_what_is_shared_stays_shared():
    thing, slots, array = Thing("a"), Slots(), np.zeros(2)
    thing.other, slots.a = [thing, array], array
    found, other = repeat((thing, slots))
    assert found.other[0] is found and found.other[1] is other.a and not hasattr(other, "b")
    other.a[0] = 1
    assert found.other[1][0] == 1


def test_what_would_run_code_is_not_kept():
    for value in (print, lambda: 1, Set(), DroppedHelper(), [open], np.array([print]), Set, ValueError("x"), object()):
        with pytest.raises(packing.Unpackable, match="neither plain data nor"):
            packing.pack(value, with_horizon)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(packing.Unpackable, match="cannot be saved"):
        packing.pack(deep)


def state(node, blob=b""):
    text = json.dumps(node).encode() if not isinstance(node, bytes) else node
    return packing.MAGIC + packing.LENGTH.pack(len(text)) + text + blob


@pytest.mark.parametrize(
    "node",
    [
        ["object", "builtins", "object", ["dict", []]],
        ["object", "os", "system", ["dict", []]],
        ["object", __name__, "Set", ["dict", []]],
        ["object", __name__, "Dropped", ["dict", []]],
        ["object", __name__, "packing.json.JSONDecoder", ["dict", []]],
        ["object", __name__, "Thing", 3],
        ["enum", __name__, "Thing", "name"],
        ["named", __name__, "Thing", [1]],
        ["enum", __name__, "Kind", "__class__"],
        ["_class__", [], []],
        ["_init__", [], []],
        ["value", 1],
        ["array", "|O", [1], "C", [0, 8]],
        ["array", [["a", "|O"]], [1], "C", [0, 8]],
        ["array", "<f8", [1 << 60], "C", [0, 8]],
        ["array", "<f8", [1], "C", [0, 1 << 60]],
        ["array", "<f8", [1], "C", [-8, 8]],
        ["objects", [1 << 40], []],
        ["scalar", "|O", [0, 8]],
        ["generator", ["SeedSequence", None, 1, [0, 0]]],
        ["generator", ["PCG64", [1, [], 1 << 40, 0], {}, [0, 0]]],
        ["random", ["tuple", [3, 4]]],
        ["again", 7],
        ["list"],
        {"a": 1},
        b"[" * 100_000,
        b"\xff",
        b"",
    ],
)
def test_bytes_of_others_are_a_sentence(node):
    with pytest.raises(ForageError, match="A saved state"):
        packing.unpack(state(node, bytes(8)), with_horizon)
    assert not Set.called


def test_what_is_inflated_is_bounded():
    data = zlib.compress(bytes(1 << 20))
    assert packing.inflate(data) == bytes(1 << 20)
    with pytest.raises(ForageError, match="holds more than 0 MiB"):
        packing.inflate(data, 1 << 10)
    with pytest.raises(ForageError, match="is cut off"):
        packing.inflate(data[:-9])
    with pytest.raises(ForageError, match="cannot be decompressed"):
        packing.inflate(b"nothing")
