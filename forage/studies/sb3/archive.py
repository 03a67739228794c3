"""Files of Stable-Baselines3, read by an unpickler that builds arrays and runs none of their code.

A model is a zip of settings in JSON and of weights as PyTorch saves them: a zip of raw numbers and a pickle that names
their types and shapes. The pickle's calls of PyTorch's and NumPy's constructors are answered here; every other class
that it names becomes an `Opaque` object, which holds attributes and does nothing.
"""

from __future__ import annotations

import base64
import collections
import io
import json
import math
import pickle
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forage.core.errors import ForageError

MOST_BYTES = 1 << 30
"""The most bytes that one part of a file may unpack to."""

STORAGES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "?",
}
"""PyTorch's classes of raw numbers, with NumPy's types."""

NUMPY = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
    ("numpy.core.multiarray", "scalar"): np._core.multiarray.scalar,  # type: ignore[attr-defined]
    ("numpy.core.numeric", "_frombuffer"): np._core.numeric._frombuffer,  # type: ignore[attr-defined]
}
"""The constructors of arrays in pickles, which run no other code."""


class Model(NamedTuple):
    """A saved model: its settings, and its weights by PyTorch's names."""

    name: str  # of its file
    settings: dict[str, Any]
    weights: dict[str, np.ndarray]
    variables: dict[str, np.ndarray]  # others that it learned, such as the temperature of SAC


class Statistics(NamedTuple):
    """The statistics of observations in a saved `VecNormalize`."""

    mean: np.ndarray
    variance: np.ndarray
    count: float
    clip: float
    epsilon: float


class Opaque:
    """An object of a class that is not loaded: its attributes alone."""

    def __init__(self, *arguments: Any, **named: Any):
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update({str(key): value for key, value in part.items()})

    def __setitem__(self, key: Any, value: Any) -> None:
        """Ignore an entry of a dictionary's subclass."""

    def append(self, value: Any) -> None:
        """Ignore an entry of a list's subclass."""

    def extend(self, values: Any) -> None:
        """Ignore entries of a list's subclass."""


class SafeUnpickler(pickle.Unpickler):
    """An unpickler that builds arrays, dictionaries and `Opaque` objects, without imports."""

    def __init__(self, data: bytes, storages: dict[str, bytes] | None = None):
        super().__init__(io.BytesIO(data))
        self.storages = storages or {}

    def find_class(self, module: str, name: str) -> Any:
        """Return the class that stands for a name in the pickle."""
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        # Functions are wrapped anew, as a pickle may set attributes of all that it is given.
        if module == "torch._utils" and name == "_rebuild_tensor_v2":
            return lambda *arguments: rebuild_tensor(*arguments)
        if module == "torch._utils" and name == "_rebuild_parameter":
            return lambda data, *rest: data
        if found := NUMPY.get((module.replace("numpy._core", "numpy.core"), name)):
            return found if isinstance(found, type) else lambda *arguments: found(*arguments)
        return type(name, (Opaque,), {"__module__": module})

    def persistent_load(self, pid: Any) -> Any:
        """Return the raw numbers that a tensor refers to."""
        kind, dtype, key, _, size = pid
        if kind != "storage" or not isinstance(dtype, str):
            raise pickle.UnpicklingError(f"numbers of the type {getattr(dtype, '__name__', dtype)} are not known")
        return np.frombuffer(self.storages[key], np.dtype(dtype))[:size]


def rebuild_tensor(storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *rest: Any) -> np.ndarray:
    """Return a tensor as an array. Raise `UnpicklingError` if it would read beyond its numbers."""
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    fits = isinstance(storage, np.ndarray) and math.prod(size) <= len(storage) and (0 in size or last < len(storage))
    if not fits or min((offset, *size, *stride), default=0) < 0:
        raise pickle.UnpicklingError("a tensor is larger than its numbers")
    steps = [step * storage.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(storage[offset:], size, steps, writeable=False).copy()


def read_model(path: Path) -> Model:
    """Return a saved model. Raise `ForageError` if the file is none of Stable-Baselines3."""
    check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if not {"data", "policy.pth"} <= names:
                lacks = " and ".join(sorted({"data", "policy.pth"} - names))
                raise ForageError(f"{path} is no model of Stable-Baselines3: the zip has no {lacks}.")
            settings = json.loads(read_member(archive, "data"))
            weights = read_tensors(read_member(archive, "policy.pth"))
            has = "pytorch_variables.pth" in names
            variables = read_tensors(read_member(archive, "pytorch_variables.pth")) if has else {}
    except ForageError:
        raise
    except Exception as error:  # damaged bytes raise errors without a common type
        raise ForageError(
            f"{path} is no whole model of Stable-Baselines3 ({type(error).__name__}: {str(error)[:200].rstrip('.')})."
        ) from error
    if not isinstance(settings, dict):
        raise ForageError(f"{path} is no model of Stable-Baselines3: its settings are no object.")
    return Model(path.name, settings, weights, variables)


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the bytes of a member. Raise `ForageError` if they are too many."""
    if archive.getinfo(name).file_size > MOST_BYTES:
        raise ForageError(f"{name} of {archive.filename} has more than {MOST_BYTES:,} bytes, which no policy needs.")
    return archive.read(name)


def read_tensors(data: bytes) -> dict[str, np.ndarray]:
    """Return the tensors by name in a file that PyTorch saved as a zip."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        root = pickled.removesuffix("data.pkl")
        stored = {n.removeprefix(f"{root}data/"): n for n in archive.namelist() if n.startswith(f"{root}data/")}
        found = SafeUnpickler(
            read_member(archive, pickled), {key: read_member(archive, n) for key, n in stored.items()}
        ).load()
    if not isinstance(found, dict):
        raise ValueError("there are no tensors by name")
    return {str(name): value for name, value in found.items() if isinstance(value, np.ndarray)}


def read_setting(model: Model, name: str) -> Any:
    """Return a setting that Stable-Baselines3 pickled, such as a space, with `Opaque` objects."""
    stored = model.settings.get(name)
    try:
        return SafeUnpickler(base64.b64decode(stored[":serialized:"])).load()  # type: ignore[index]
    except Exception as error:
        raise ForageError(f"The {name} of {model.name} cannot be read ({type(error).__name__}).") from error


def read_statistics(path: Path) -> Statistics | None:
    """Return the statistics of a saved `VecNormalize`; `None` if it leaves observations as they are.

    Raise `ForageError` for other files.
    """
    check_file(path)
    try:
        found = SafeUnpickler(path.read_bytes()).load()
    except Exception as error:
        raise ForageError(
            f"{path} is no saved VecNormalize ({type(error).__name__}: {str(error)[:200].rstrip('.')})."
        ) from error
    if type(found).__name__ != "VecNormalize" or not isinstance(found, Opaque):
        raise ForageError(f"{path} is no saved VecNormalize, which env.save(FILE) of Stable-Baselines3 writes.")
    if not getattr(found, "norm_obs", True):
        return None
    stored: Any = found
    try:
        rms = stored.obs_rms
        if isinstance(rms, dict):
            raise ForageError(f"{path} normalises observations by key, and those of one array are imported.")
        numbers = (float(x) for x in (rms.count, stored.clip_obs, stored.epsilon))
        return Statistics(np.asarray(rms.mean, np.float64), np.asarray(rms.var, np.float64), *numbers)
    except (AttributeError, TypeError, ValueError):
        raise ForageError(f"{path} is no whole VecNormalize; save it again with env.save(FILE).") from None


def check_file(path: Path) -> None:
    """Raise `ForageError` if there is no such file."""
    if not path.is_file():
        raise ForageError(f"There is no file {path}; give the model.zip that model.save of Stable-Baselines3 wrote.")
