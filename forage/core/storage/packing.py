"""Python values as bytes: JSON and arrays, which are read back without running any code.

A pickle names functions to be called; what lies in a run's directory may be somebody else's, so no pickle is read.
"""

from __future__ import annotations

import collections
import enum
import json
import random
import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from forage.core.errors import ForageError

MAGIC = b"forage-state-1\n"
LENGTH = struct.Struct("<Q")
PICKLED = b"\x80"
"""The first byte of a pickle, as older versions wrote them."""
MOST = 1 << 28
"""Bytes that a state may be inflated to. No simulator that can be saved comes near it."""

GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
SCALARS = (type(None), bool, int, float, str)

KINDS = {
    "again",
    "tuple",
    "bytes",
    "complex",
    "range",
    "slice",
    "frozenset",
    "dtype",
    "scalar",
    "enum",
    "named",
    "list",
}
KINDS |= {
    "set",
    "dict",
    "OrderedDict",
    "Counter",
    "deque",
    "bytearray",
    "array",
    "objects",
    "generator",
    "random_state",
}
KINDS |= {"bits", "seeds", "random", "object"}
"""Kinds of values that `JsonReader` has a method for."""
LARGEST_POOL = 1 << 10
"""Words of a pool of seeds; NumPy's usual is 4."""

Known = Callable[[type], bool]


class Unpackable(ForageError):
    """A value is neither plain data nor an object of a known type."""


class PickledState(ForageError):
    """A state was written as a pickle."""


def know_no_type(cls: type) -> bool:
    """Know no type but plain data."""
    return False


def pack(value: Any, known: Known = know_no_type) -> bytes:
    """Return a value as bytes. Raise `Unpackable` for a value that is neither plain data nor of a known type.

    Plain data are numbers, texts, bytes, lists, tuples, dictionaries, sets, deques, arrays and generators of random
    numbers. An object whose type is `known` is kept as its attributes. What is shared, or refers to itself, stays so.
    """
    writer = Writer(known)
    try:
        text = json.dumps(writer.node(value)).encode()
    except (RecursionError, ValueError) as error:  # nested too deep, or a number of too many digits
        raise Unpackable(f"A value cannot be saved: {error}.") from error
    return b"".join([MAGIC, LENGTH.pack(len(text)), text, *writer.blobs])


def unpack(data: bytes, known: Known = know_no_type) -> Any:
    """Return the value that `pack` was given. Raise `ForageError` for bytes that it did not write.

    No constructor or method of a known type is called: its attributes are set as they were.
    """
    if data[:1] == PICKLED:
        raise PickledState("A saved state is a pickle, of an older version of Forage or of others, which is not read.")
    try:
        if not data.startswith(MAGIC):
            raise ValueError("it does not begin as a state does")
        begin = len(MAGIC) + LENGTH.size
        (length,) = LENGTH.unpack_from(data, len(MAGIC))
        node = json.loads(data[begin : begin + length])
        return JsonReader(memoryview(data)[begin + length :], known).value(node)
    except ForageError:
        raise
    except Exception as error:  # what damaged bytes raise has no common type
        raise ForageError(f"A saved state cannot be read ({type(error).__name__}: {error}).") from error


def inflate(data: bytes, most: int = MOST) -> bytes:
    """Decompress bytes of zlib. Raise `ForageError` if they are damaged, or more than `most`."""
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(data, most)
    except zlib.error as error:
        raise ForageError(f"A saved state cannot be decompressed ({error}).") from error
    if not inflater.eof:
        what = f"holds more than {most >> 20} MiB" if len(found) >= most else "is cut off"
        raise ForageError(f"A saved state cannot be decompressed: it {what}.")
    return found


class Writer:
    """Turns values into JSON, and their arrays into bytes that follow it."""

    def __init__(self, known: Known):
        self.known = known
        self.blobs: list[bytes] = []
        self.size = 0
        self.numbers: dict[int, int] = {}  # of what was written, by id
        self.kept: list[Any] = []  # so that no id is used again meanwhile

    def blob(self, data: bytes) -> list[int]:
        place = [self.size, len(data)]
        self.blobs.append(data)
        self.size += len(data)
        return place

    def node(self, value: Any) -> Any:
        """Return the JSON of a value: itself where JSON has it, otherwise a list that begins with its kind."""
        cls = type(value)
        if cls in SCALARS:
            return value
        if cls is tuple:
            return ["tuple", [self.node(item) for item in value]]
        if cls in (bytes, complex, np.dtype, range, slice, frozenset) or issubclass(cls, np.generic | np.dtype):
            return self.write_immutable(value, cls)
        if isinstance(value, enum.Enum):
            return ["enum", *self.type_name(cls), value.name]
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return ["named", *self.type_name(cls), [self.node(item) for item in value]]
        number = self.numbers.get(id(value))
        if number is not None:
            return ["again", number]
        self.numbers[id(value)] = len(self.kept)
        self.kept.append(value)
        return self.write_mutable(value, cls)

    def write_immutable(self, value: Any, cls: type) -> list[Any]:
        """Return the JSON of an immutable value, for which sharing does not matter."""
        if cls is bytes:
            return ["bytes", self.blob(value)]
        if cls is complex:
            return ["complex", value.real, value.imag]
        if cls is range or cls is slice:
            return [cls.__name__, value.start, value.stop, value.step]
        if cls is frozenset:
            return ["frozenset", [self.node(item) for item in value]]
        if issubclass(cls, np.dtype):
            return ["dtype", dtype_to_json(value)]
        return ["scalar", dtype_to_json(value.dtype), self.blob(np.asarray(value).tobytes())]

    def write_mutable(self, value: Any, cls: type) -> list[Any]:
        """Return the JSON of a mutable value."""
        if cls in (list, set):
            return [cls.__name__, [self.node(item) for item in value]]
        if cls is dict or cls in (collections.OrderedDict, collections.Counter):
            return [cls.__name__, [[self.node(key), self.node(item)] for key, item in value.items()]]
        if cls is collections.deque:
            return ["deque", value.maxlen, [self.node(item) for item in value]]
        if cls is bytearray:
            return ["bytearray", self.blob(bytes(value))]
        if cls is np.ndarray:
            if value.dtype.hasobject:
                if value.dtype != object:
                    raise Unpackable("An array of records with objects is no plain data.")
                return ["objects", list(value.shape), [self.node(item) for item in value.reshape(-1)]]
            order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
            return ["array", dtype_to_json(value.dtype), list(value.shape), order, self.blob(value.tobytes(order))]
        if cls is np.random.Generator:
            return ["generator", self.bits(value.bit_generator)]
        if cls is np.random.RandomState:
            return ["random_state", self.bits(value._bit_generator)]
        if cls.__module__.startswith("numpy.random") and cls.__name__ in GENERATORS:
            return ["bits", self.bits(value)]
        if cls is np.random.SeedSequence:
            return ["seeds", self.seeds(value)]
        if cls is random.Random:
            return ["random", Writer(know_no_type).node(value.getstate())]
        return ["object", *self.type_name(cls), self.node(dict(attributes(value)))]

    def bits(self, bits: Any) -> list[Any]:
        """Return the JSON of a generator of random bits: its kind, its seeds and its state."""
        if type(bits).__name__ not in GENERATORS or not type(bits).__module__.startswith("numpy.random"):
            raise Unpackable(f"{type(bits).__name__} is no generator of NumPy's own.")
        seeds = bits.seed_seq
        sown = self.seeds(seeds) if type(seeds) is np.random.SeedSequence else None
        inner = Writer(know_no_type)
        state = inner.node(bits.state)
        return [type(bits).__name__, sown, state, self.blob(b"".join(inner.blobs))]

    def seeds(self, seeds: np.random.SeedSequence) -> list[Any]:
        entropy = seeds.entropy
        plain = entropy.tolist() if isinstance(entropy, np.ndarray | np.integer) else entropy
        plain = [int(item) for item in plain] if isinstance(plain, list | tuple) else plain  # type: ignore[arg-type]
        return [plain, list(seeds.spawn_key), seeds.pool_size, seeds.n_children_spawned]

    def type_name(self, cls: type) -> list[str]:
        """Return the module and name of a type that is read back. Raise `Unpackable` for any other."""
        if not self.known(cls) or find(cls.__module__, cls.__qualname__) is not cls:
            raise Unpackable(f"{cls.__module__}.{cls.__qualname__} is neither plain data nor of a known type.")
        return [cls.__module__, cls.__qualname__]


class JsonReader:
    """Makes values of JSON and of the bytes that follow it."""

    def __init__(self, data: memoryview, known: Known):
        self.data, self.known = data, known
        self.kept: list[Any] = []

    def blob(self, place: list[int]) -> bytes:
        begin, length = place
        if not 0 <= begin <= begin + length <= len(self.data):
            raise ValueError("bytes are missing")
        return bytes(self.data[begin : begin + length])

    def keep(self, value: Any) -> Any:
        self.kept.append(value)
        return value

    def values(self, nodes: list[Any]) -> list[Any]:
        return [self.value(node) for node in nodes]

    def value(self, node: Any) -> Any:
        if type(node) in SCALARS:
            return node
        kind, *said = node
        if kind not in KINDS:
            raise ValueError(f"there is no kind {kind!r}")
        return getattr(self, f"_unpack_{kind}")(*said)

    def _unpack_again(self, number: int) -> Any:
        return self.kept[number]

    def _unpack_tuple(self, nodes: list[Any]) -> Any:
        return tuple(self.values(nodes))

    def _unpack_bytes(self, place: list[int]) -> Any:
        return self.blob(place)

    def _unpack_complex(self, real: float, imaginary: float) -> Any:
        return complex(real, imaginary)

    def _unpack_range(self, *ends: int) -> Any:
        return range(*ends)

    def _unpack_slice(self, *ends: Any) -> Any:
        return slice(*ends)

    def _unpack_frozenset(self, nodes: list[Any]) -> Any:
        return frozenset(self.values(nodes))

    def _unpack_dtype(self, said: Any) -> Any:
        return dtype_of(said)

    def _unpack_scalar(self, said: Any, place: list[int]) -> Any:
        return np.frombuffer(self.blob(place), dtype_of(said))[0]

    def _unpack_enum(self, module: str, name: str, member: str) -> Any:
        cls = self.type(module, name)
        if not issubclass(cls, enum.Enum):
            raise ValueError(f"{name} has no members")
        return cls[member]

    def _unpack_named(self, module: str, name: str, nodes: list[Any]) -> Any:
        cls = self.type(module, name)
        if not (issubclass(cls, tuple) and hasattr(cls, "_fields")):
            raise ValueError(f"{name} is no tuple with names")
        return tuple.__new__(cls, self.values(nodes))

    def _unpack_list(self, nodes: list[Any]) -> Any:
        found = self.keep([])
        found.extend(self.values(nodes))
        return found

    def _unpack_set(self, nodes: list[Any]) -> Any:
        found = self.keep(set())
        found.update(self.values(nodes))
        return found

    def _unpack_dict(self, pairs: list[Any], cls: Any = dict) -> Any:
        found = self.keep(cls())
        for key, item in pairs:
            name = self.value(key)
            found[name] = self.value(item)
        return found

    def _unpack_OrderedDict(self, pairs: list[Any]) -> Any:
        return self._unpack_dict(pairs, collections.OrderedDict)

    def _unpack_Counter(self, pairs: list[Any]) -> Any:
        return self._unpack_dict(pairs, collections.Counter)

    def _unpack_deque(self, longest: int | None, nodes: list[Any]) -> Any:
        found = self.keep(collections.deque(maxlen=longest))
        found.extend(self.values(nodes))
        return found

    def _unpack_bytearray(self, place: list[int]) -> Any:
        return self.keep(bytearray(self.blob(place)))

    def _unpack_array(self, said: Any, shape: list[int], order: Any, place: list[int]) -> Any:
        dtype, data = dtype_of(said), self.blob(place)
        flat = np.frombuffer(data, dtype) if data else np.empty(0, dtype)
        return self.keep(flat.reshape(shape, order="F" if order == "F" else "C").copy("K"))

    def _unpack_objects(self, shape: list[int], nodes: list[Any]) -> Any:
        if int(np.prod([abs(int(n)) for n in shape], dtype=object)) != len(nodes):
            raise ValueError("an array of objects has another size")
        found = self.keep(np.empty(len(nodes), object).reshape(shape))
        for index, node in enumerate(nodes):
            found.reshape(-1)[index] = self.value(node)
        return found

    def _unpack_generator(self, bits: list[Any]) -> Any:
        return self.keep(np.random.Generator(self.bits(*bits)))

    def _unpack_random_state(self, bits: list[Any]) -> Any:
        return self.keep(np.random.RandomState(self.bits(*bits)))

    def _unpack_bits(self, bits: list[Any]) -> Any:
        return self.keep(self.bits(*bits))

    def _unpack_seeds(self, said: list[Any]) -> Any:
        return self.keep(seeds_of(*said))

    def _unpack_random(self, node: Any) -> Any:
        found = random.Random()
        found.setstate(JsonReader(memoryview(b""), know_no_type).value(node))
        return self.keep(found)

    def _unpack_object(self, module: str, name: str, node: Any) -> Any:
        cls = self.type(module, name)
        found = self.keep(object.__new__(cls))
        values = self.value(node)
        own = getattr(found, "__dict__", None)
        for key, value in values.items():
            base = next((base for base in cls.__mro__ if key in slots_of(base)), None)
            if base is not None:
                vars(base)[key].__set__(found, value)
            elif own is not None:
                own[key] = value
        return found

    def bits(self, name: str, sown: list[Any] | None, state: Any, place: list[int]) -> Any:
        if name not in GENERATORS:
            raise ValueError(f"there is no generator {name}")
        made = getattr(np.random, name)(0 if sown is None else seeds_of(*sown))
        made.state = JsonReader(memoryview(self.blob(place)), know_no_type).value(state)
        return made

    def type(self, module: str, name: str) -> Any:
        """Return a known type, without importing any module."""
        cls = find(module, name)
        if not isinstance(cls, type) or (cls.__module__, cls.__qualname__) != (module, name) or not self.known(cls):
            raise ForageError(
                f"A saved state names {module}.{name}, neither plain data nor of the environment's own library."
            )
        return cls


def find(module: str, name: str) -> Any:
    """Return an attribute of a module that is imported already; `None` if there is none."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def is_plain(cls: type) -> bool:
    """Return whether an object of a class is its attributes alone, and neither reading nor dropping it runs code."""
    if issubclass(cls, enum.Enum) or (issubclass(cls, tuple) and hasattr(cls, "_fields")):
        return not hasattr(cls, "__del__")
    special = ("__reduce__", "__reduce_ex__", "__getstate__")
    usual = all(getattr(cls, name, None) is getattr(object, name, None) for name in special)
    return (
        usual and cls.__new__ is object.__new__ and not any(hasattr(cls, name) for name in ("__del__", "__setstate__"))
    )


def attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, those in slots too."""
    slots = [name for cls in type(value).__mro__ for name in slots_of(cls)]
    return {name: getattr(value, name) for name in slots if hasattr(value, name)} | dict(getattr(value, "__dict__", {}))


def slots_of(cls: type) -> list[str]:
    found = cls.__dict__.get("__slots__", ())
    named = [found] if isinstance(found, str) else list(found)
    return [name for name in named if name not in ("__dict__", "__weakref__")]


def dtype_to_json(dtype: np.dtype[Any]) -> Any:
    """Return a dtype as JSON. Raise `Unpackable` for a dtype that NumPy's own files cannot store."""
    if dtype.hasobject or dtype.isbuiltin == 2 or not dtype.itemsize:
        raise Unpackable(f"Numbers of the type {dtype} are no plain data.")
    return np.lib.format.dtype_to_descr(dtype)


def dtype_of(said: Any) -> np.dtype[Any]:
    """Return the dtype of a description; none of objects."""

    def tuples(item: Any) -> Any:
        return tuple(map(tuples, item)) if isinstance(item, list) else item

    fields: Any = [tuples(field) for field in said] if isinstance(said, list) else said
    if not isinstance(fields, str | list):
        raise ValueError("a type of numbers is a text or a list")
    found = np.lib.format.descr_to_dtype(fields)  # pyrefly: ignore[bad-argument-type]
    if found.hasobject:
        raise ValueError("an array holds objects")
    return found


def seeds_of(entropy: Any, spawn_key: list[int], pool: int, children: int) -> np.random.SeedSequence:
    if not 0 < pool <= LARGEST_POOL:
        raise ValueError("a pool of seeds has another size")
    return np.random.SeedSequence(entropy, spawn_key=spawn_key, pool_size=pool, n_children_spawned=children)
