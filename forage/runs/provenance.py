"""The code and versions that a run was made with, and their differences from the present ones."""

from __future__ import annotations

import datetime
import functools
import hashlib
import importlib.metadata
import inspect
import json
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from forage.config import packages
from forage.config.options import PORTS
from forage.config.run_config import RunConfig
from forage.core.loading import FILE
from forage.core.plain import package_version
from forage.core.ports import Environment

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium")


def versions() -> dict[str, Any]:
    """Return the versions of Python and packages, the state of the code, and the machine."""
    return {
        "forage": package_version("forage-rl"),
        "code": code_hash(),
        "git": git_state(),
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in PACKAGES},
        "machine": {
            "system": platform.platform(),
            "device": jax.devices()[0].device_kind,
            "backend": jax.default_backend(),
        },
    }


def version_record(setup: RunConfig, config: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a new run: versions, the day, the number of cores, and the user's own code.

    `config`: the configuration as plain data.
    """
    made: dict[str, Any] = {"date": datetime.date.today().isoformat(), "cores": os.cpu_count()}
    own = own_code(setup, config)
    return versions() | made | ({"own": own} if own else {})


def differences(then: dict[str, Any]) -> str:
    """Describe the differences from stored versions, such as `jax 0.10.1 (here 0.10.2)`; empty if there are none."""
    now = versions()
    found = []
    for name in ("forage", *PACKAGES):
        if then.get(name) != now[name]:
            found.append(f"{name} {then.get(name)} (here {now[name]})")
    if then.get("code") != now["code"] and then.get("forage") == now["forage"]:
        found.append(f"other code of forage {now['forage']} (here {now['code']}, there {then.get('code')})")
    if then.get("machine", {}).get("backend") != now["machine"]["backend"]:
        found.append(f"the backend {then.get('machine', {}).get('backend')} (here {now['machine']['backend']})")
    return " and ".join(found)


DOORS = (
    *("runs/", "studies/", "cli/", "evaluation/", "__init__.py", "__main__.py"),
    *("config/options.py", "environments/drawing.py", "loop/soundness.py"),
)
"""Files and folders of the package that display or save, but do not affect the numbers of a run."""

DECIDES = "runs/scoring.py"
"""The file in such a folder that does affect numbers: the seeds of evaluations."""


@functools.cache
def code_hash(root: Path = Path(__file__).parents[1]) -> str:
    """Return a short fingerprint of the library's source files that affect the numbers of a run."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        shows = name in DOORS or name.startswith(tuple(door for door in DOORS if door.endswith("/")))
        if not shows or name == DECIDES:
            digest.update(name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def git_state() -> dict[str, Any] | None:
    """Return the commit of the working directory, and whether its files differ from it; `None` outside git."""
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5)
        if commit.returncode:
            return None
        changed = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"commit": commit.stdout.strip(), "changed": bool(changed.stdout.strip())}


INSTALLED = tuple(
    os.path.realpath(folder) + os.sep
    for folder in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        Path(__file__).parents[1],
    )
)
"""Folders of code that has a version and is not the user's own."""


def own_code(setup: RunConfig, config: dict[str, Any] | None = None) -> dict[str, str]:
    """Return a fingerprint of each file of the user's code, and of each package of parts, that a run uses, by its name.

    These are the files of environments, parts and functions, and the modules imported from their folders. Of a script
    that trains its own classes or functions, only those count, as such scripts are edited for the next run. Of a
    package that adds parts, all files count together.
    """
    found: dict[str, str] = {}
    files = {Path(file).resolve() for file in named_files(parts_of(setup.config() if config is None else config))}
    for thing in python_objects(setup):
        if getattr(thing, "__module__", "").startswith("forage."):
            continue
        module = sys.modules.get(getattr(thing, "__module__", ""))
        if getattr(module, "__name__", "") == "__main__":
            try:
                source = inspect.getsource(thing)
            except (OSError, TypeError):  # typed into a console
                continue
            found[f"__main__:{thing.__qualname__}"] = hash_data(source.encode())
        elif (package := packages.package_of(thing.__module__)) is not None:
            found[package.title] = hash_data(b"".join(path.read_bytes() for path in packages.code_files(package)))
        elif module is not None and (path := file_of(module)) is not None:
            files.add(path)
    folders = {path.parent for path in files}
    helpers = {path for module in list(sys.modules.values()) if (path := file_of(module)) is not None}
    files |= {path for path in helpers if folders & set(path.parents)}
    for path in sorted(files):
        folder = next(folder for folder in sorted(folders) if folder in path.parents)
        name = path.relative_to(folder).as_posix()
        if name in found:
            name = f"{folder.name}/{name}"
        if path.is_file():
            found[name] = hash_data(path.read_bytes())
    return found


def changed_code(then: Mapping[str, Any], setup: RunConfig) -> str:
    """Describe the differences of the user's code from that in `versions.json`, such as `another my_env.py`."""
    stored = then.get("own") or {}
    now = own_code(setup) if stored else {}
    differing = [name for name in stored if name in now and now[name] != stored[name]]
    differing += [name for name in stored if name not in now and folder_lacks(name, setup)]
    return " and ".join(f"another {name}" for name in differing)


def folder_lacks(name: str, setup: RunConfig) -> bool:
    """Return whether a file that was not imported this time is missing from the folders of the user's code."""
    folders = {Path(file).resolve().parent for file in named_files(parts_of(setup.config()))}
    return bool(folders) and not any((folder / name).is_file() for folder in folders)


def said_of_code(directory: Path, setup: RunConfig) -> str:
    """Return a note if a run was made with other code of the user, else an empty text."""
    try:
        then = json.loads((directory / "versions.json").read_text())
    except (OSError, ValueError):
        return ""  # resuming asks for it; playing does not
    found = changed_code(then, setup) if isinstance(then, dict) else ""
    if not found:
        return ""
    return f"Note: {directory} was trained with {found} than the one here; the numbers are those of the one here."


def hash_data(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def parts_of(config: dict[str, Any]) -> dict[str, Any]:
    """Return the environment and parts of a run's configuration, without descriptions such as a name."""
    return {name: value for name, value in config.items() if name in ("environment", "agent", *PORTS)}


def named_files(config: Any) -> Iterator[str]:
    """Return the files of all `file.py:Class` and `module:Class` that a configuration names."""
    if isinstance(config, Mapping):
        for value in config.values():
            yield from named_files(value)
    elif isinstance(config, list | tuple):
        for value in config:
            yield from named_files(value)
    elif isinstance(config, str) and ":" in config:
        source, _, name = config.rpartition(":")
        if not name.replace(".", "").isidentifier():
            return
        if source.endswith(".py"):
            yield source.removeprefix("text:")
        elif (module := sys.modules.get(source.rpartition(":")[2])) is not None and (path := file_of(module)):
            yield str(path)


@functools.cache
def real_folder(folder: str) -> str:
    """Return the path of a folder without links."""
    return os.path.realpath(folder)


def file_of(module: Any) -> Path | None:
    """Return the file of a module of the user; `None` if it is installed, part of Python or the script itself."""
    file, name = getattr(module, "__file__", None), getattr(module, "__name__", "")
    if not isinstance(file, str) or not file.endswith(".py") or name == "__main__":
        return None
    folder, name_there = os.path.split(file)  # by text and by folder: there are a thousand modules
    path = os.path.realpath(file) if os.path.islink(file) else os.path.join(real_folder(folder), name_there)
    installed = {"site-packages", "dist-packages"} & set(path.split(os.sep)) or path.startswith(INSTALLED)
    return None if installed and not name.startswith(FILE) else Path(path)


def python_objects(setup: RunConfig) -> Iterator[Any]:
    """Return the classes and functions that were given as Python objects: of the environment and of parts."""
    if isinstance(setup.environment, Environment):
        yield from types_in(setup.environment)
    elif (maker := getattr(getattr(setup.environment, "__self__", None), "maker", None)) is not None:
        given = getattr(maker, "given", maker)
        yield (
            given if isinstance(given, type) or inspect.isfunction(given) else type(getattr(given, "unwrapped", given))
        )
    elif inspect.isfunction(setup.environment) or isinstance(setup.environment, type):
        yield setup.environment
    for part in (setup.agent, *(getattr(setup, port) for port in PORTS)):
        yield from types_in(part)


def types_in(thing: Any) -> Iterator[type]:
    """Yield the class of an object, and those of the parts it holds, such as wrapped ones."""
    yield type(thing)
    for value in getattr(thing, "__dict__", {}).values():
        if dataclass_like(value):
            yield from types_in(value)


def dataclass_like(value: Any) -> bool:
    return hasattr(type(value), "__dataclass_fields__")
