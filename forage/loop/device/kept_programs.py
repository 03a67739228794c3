"""Compiled programs on disk that a command finds without tracing them.

JAX keeps compiled programs by their lowered text, and to make that text takes a run's start longer than to read the
program. Here a program is found by what decides its text: its name, the classes and static fields of the parts, the
shapes of their arrays, the sources of Forage, and the versions, settings and processor. Numbers of parts are arguments
of programs, so that runs which differ in them alone share one.

Programs of one device are kept, and on the CPU those of several that share no seed. Only the command `forage` does so,
in which no code of a person can have replaced a function of Forage, and only where all parts are Forage's own: what
else a stranger's class calls is not known here.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import hashlib
import importlib.metadata
import io
import os
import pickle
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.experimental import serialize_executable
from jaxtyping import PyTree

from forage.core import prng
from forage.core.compiling import compile_program

OWN = Path(__file__).parents[2]
LIBRARIES = ("jax", "jaxlib", "numpy", "equinox", "gymnasium", "optax", "jaxtyping")
"""Packages whose version stands for their sources."""
KNOWN = {"forage", "builtins", "collections", "functools", "copyreg", "pathlib", *LIBRARIES}
"""Packages of the classes and functions that a tree may have, if its programs are to be kept."""
COMMAND = ("forage", "forage.__main__")
SUFFIX = ".forage-program"


class Foreign(Exception):
    """A tree has a class or function whose sources are not known here."""


class TreePickler(pickle.Pickler):
    """Writes the structures of trees. Raises `Foreign` for classes and functions of other packages."""

    def reducer_override(self, value: Any) -> Any:
        named = isinstance(value, type) or hasattr(value, "__qualname__")
        owner = value if named else type(value)
        if (owner.__module__ or "").partition(".")[0] not in KNOWN:
            raise Foreign(owner.__module__)
        if not named and type(value).__name__ == "_Missing":  # Equinox compares it by identity
            return "MISSING"
        return NotImplemented


def to_bytes(value: Any) -> bytes:
    """Return a value, structures of trees among it, as bytes. Raise `Foreign` if it is not of known packages alone."""
    file = io.BytesIO()
    TreePickler(file, protocol=5).dump(value)
    return file.getvalue()


GENERATOR: Any = getattr(prng.FUSED, "_impl")  # noqa: B009
"""Forage's generator of random numbers as types of keys have it, whose functions cannot be found by name."""


def implementation(name: str) -> Any:
    """Return the generator of random numbers of this name."""
    if name != GENERATOR.name:
        raise pickle.UnpicklingError(f"{name} is not Forage's generator of random numbers.")
    return GENERATOR


copyreg.pickle(type(GENERATOR), lambda impl: (implementation, (impl.name,)))


def is_command() -> bool:
    """Return whether this process is the command `forage`, and not a script that may have changed the library."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return (Path(getattr(main, "__file__", None) or "").name if spec is None else spec.name) in COMMAND


def folder() -> Path | None:
    """Return the folder of kept programs, JAX's own; `None` where none are kept."""
    found = getattr(jax.config, "jax_compilation_cache_dir", None)
    if not is_command() or found is None or not getattr(jax.config, "jax_enable_compilation_cache", True):
        return None
    return Path(found)


def path_for(name: Any, tree: PyTree[Any], devices: Sequence[jax.Device]) -> Path | None:
    """Return the file of the program of this name for a tree of parts, or `None` if it cannot be kept.

    `name`: all that decides the program beside the tree.
    """
    if (home := folder()) is None or (len(devices) > 1 and any(one.platform != "cpu" for one in devices)):
        return None
    avals = [(x.shape, str(x.dtype), getattr(x, "weak_type", False)) for x in map(jax.typeof, jax.tree.leaves(tree))]
    kinds = [(one.platform, one.device_kind, one.id, one.client.platform_version) for one in devices]
    try:
        described = to_bytes((name, jax.tree.structure(tree), avals, kinds))
    except (Foreign, pickle.PicklingError, TypeError, AttributeError):
        return None
    return home / f"{hashlib.sha256(described + surroundings()).hexdigest()[:40]}{SUFFIX}"


@functools.cache
def surroundings() -> bytes:
    """Return all outside the parts that decides a program: sources, versions, settings and processor."""
    sources = []
    for path in sorted(OWN.rglob("*.py")):
        found = path.stat()
        sources.append((str(path), found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    settings = {name: value for name, value in jax.config.values.items() if "cache" not in name}
    variables = {name: value for name, value in os.environ.items() if name.startswith(("XLA_", "NPROC", "PJRT_"))}
    processor = next((line for line in cpu_lines() if line.startswith(("flags", "Features"))), "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = [importlib.metadata.version(name) for name in LIBRARIES]
    machine = sys.version, platform.machine(), platform.system(), processor, cores
    return repr((sources, sorted(settings.items()), sorted(variables.items()), versions, machine)).encode()


def cpu_lines() -> list[str]:
    """Return the system's description of its processors, empty where it gives none."""
    with contextlib.suppress(OSError):
        return Path("/proc/cpuinfo").read_text().splitlines()
    return []


def obtain(
    path: Path | None,
    function: Any,
    arguments: tuple[Any, ...],
    devices: Sequence[jax.Device],
    lowered: Callable[[], None] = lambda: None,
) -> Any:
    """Return the program that a file keeps, else compile a jitted function, and keep its program there.

    `lowered` is called before it is compiled, as by `compile_program`.

    What JAX has read from its own cache is not kept: XLA does not write all of such a program a second time.
    """
    if path is not None and (kept := read_program(path, arguments, devices)) is not None:
        return kept
    program, is_new = compile_program(function, *arguments, lowered=lowered)
    if path is not None and is_new:
        write_program(path, program)
    return program


def read_program(path: Path, arguments: tuple[Any, ...], devices: Sequence[jax.Device]) -> Any:
    """Return the program that a file keeps; `None` if there is none, or if it cannot be used."""
    try:
        payload, results = pickle.loads(path.read_bytes())
        structure = jax.tree.structure((arguments, {}))
        program = serialize_executable.deserialize_and_load(payload, structure, results, execution_devices=devices)
        os.utime(path)
    except FileNotFoundError:
        return None
    except Exception:  # damaged, or made by a library that writes programs in another way: it is compiled anew
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    return program


def write_program(path: Path, program: Any) -> None:
    """Keep a program in a file, if it can be written out."""
    try:
        payload, _, results = serialize_executable.serialize(program)
        content = to_bytes((payload, results))
    except (Foreign, pickle.PicklingError, TypeError, AttributeError, ValueError, NotImplementedError):
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):  # a full disk: the next run compiles again
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(content)
        draft.replace(path)
