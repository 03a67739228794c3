"""The user's code and the addresses that a stored configuration names, apart from Forage's own tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forage.config.registry import WRAPPERS, is_table_part
from forage.config.values import OWN, looks_own
from forage.core import trust as core
from forage.core.errors import ForageError
from forage.environments.catalogue import NATIVE, SUITES

FILE = re.compile(r".+\.py:\S+", re.DOTALL)
"""Text that names a class or function in a file."""
IMPORTING = ("gymnasium", "pettingzoo", "mo-gymnasium", "robotics")
"""Suites with ids that may name a module to import."""


def code_in(config: dict[str, Any]) -> list[str]:
    """Return all foreign code that a configuration names, as `file.py:Name` or `module:Name`."""
    stored = config.get("environment")
    stored = {"id": stored} if isinstance(stored, str) else stored if isinstance(stored, dict) else {}
    found = [*of_environment(str(stored.get("id", "")))]
    own = stored.get("options")
    own = own if isinstance(own, dict) else {}
    found += of_parts(own.get("tools"), "tools")
    found += [str(name) for name in as_list(own.get("rewards")) if ":" in str(name)]  # reward functions
    found += [str(words) for words in as_list(stored.get("wrap")) if str(words).partition(":")[0] not in WRAPPERS]
    trackers = [*as_list(config.get("track")), *as_list(config.get("extras"))]
    found += [str(name) for name in trackers if ":" in str(name)]
    found += of_parts({name: value for name, value in config.items() if name not in ("spec", "environment")})
    return list(dict.fromkeys(found))


def addresses_in(config: Any) -> list[core.Entry]:
    """Return the parts of a configuration that send to an address."""
    if isinstance(config, dict):
        reaches = any(name in config for name in core.REACHES)
        own = core.reach_of(config["part"], config) if isinstance(config.get("part"), str) and reaches else None
        return [*([own] if own else []), *(entry for value in config.values() for entry in addresses_in(value))]
    return [entry for item in config for entry in addresses_in(item)] if isinstance(config, list) else []


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, and a text as a list of itself."""
    return [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []


def of_environment(id: str) -> Iterator[str]:
    """Yield the code that an environment's id names."""
    prefix, colon, rest = id.partition(":")
    native = id in NATIVE or re.fullmatch(r"DeepSea-\d+", id, re.IGNORECASE)
    if native or not colon or any(name.lower() == id.lower() for name in NATIVE):
        return
    suite = next((name for name in SUITES if name.lower() == prefix.lower()), None)
    if suite is None:
        yield id
    elif suite == "pettingzoo" and rest and "/" not in rest:
        yield f"{rest}:env"
    elif suite in IMPORTING and ":" in rest:
        yield f"{rest.rpartition(':')[0]}:{rest.rpartition(':')[2]}"
    elif suite == "text":
        yield from (one for one in rest.split("+") if ":" in one)  # of several families


def of_parts(value: Any, name: str = "") -> list[str]:
    """Return the code that parts, and options of parts, name."""
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in of_parts(inner, str(key))]
    if isinstance(value, list | tuple):
        return [found for inner in value for found in of_parts(inner, name)]
    if not isinstance(value, str):
        return []
    if name == "part":
        return [] if ":" not in value or is_table_part(value) else [value]
    by_name = ":" in value and name in (*OWN, "schedule", "person", "tools")
    own = FILE.fullmatch(value) or (by_name and not is_schedule(value))
    return [value] if own else []


def is_schedule(words: str) -> bool:
    """Return whether words are a schedule of Forage's own, such as `linear:0.1`, and name no function."""
    return not looks_own(words) and "." not in words.partition(":")[0]


def entries_in(config: dict[str, Any]) -> list[core.Entry]:
    """Return the code and the addresses that a user must trust to act with a configuration."""
    found = addresses_in(config)
    for name in code_in(config):
        for path in core.files_of(core.source_of(name)):
            found.append(core.entry_of(path))
    return found


def guard_imports(where: str | os.PathLike[str], config: dict[str, Any], *given: Any) -> Any:
    """Guard imports for a configuration that was read from `where`; see `core.trust.stored`."""
    return core.guard_stored(where, unknown_entries(config), given)


def check_trust(where: str | os.PathLike[str], config: dict[str, Any]) -> None:
    """Raise `ForageError` if a configuration that was read from `where` names code, or an address, not known here.

    For what is built later beside a person's own words, out of reach of `stored`.
    """
    with guard_imports(where, config):
        for name in code_in(config):
            core.check_source(core.source_of(name))
        core.check_trusted(addresses_in(config))


def unknown_entries(config: dict[str, Any]) -> list[core.Entry]:
    """Return the unknown entries of a configuration."""
    return [entry for entry in entries_in(config) if not core.is_known(entry)]


def keep_own(config: dict[str, Any], but: dict[str, Any] | None = None) -> None:
    """Record that this user trained with a configuration, and so trusts its code, with later edits, and its addresses.

    `but`: a configuration whose code the user did not name, such as a parent's.
    """
    theirs = set() if but is None else set(code_in(but))
    files = {
        str(path) for name in code_in(config) if name not in theirs for path in core.files_of(core.source_of(name))
    }
    for path in sorted(files):
        core.keep_entry({"path": path})
    known = [] if but is None else addresses_in(but)
    for entry in addresses_in(config):
        if entry not in known:
            core.keep_entry(entry)


def trust(run: str | os.PathLike[str]) -> None:
    """Say that you know the code of its maker's own that a run names, and the addresses that it sends to.

    Prints each, a file with its hash, and remembers it for this machine: until the file changes, nothing that reads the
    run asks again. `run`: the run's directory.
    """
    from forage.core.records import read_config

    path = Path(run)
    if not (path / "config.json").exists():
        raise ForageError(f"{run} is not a run: it has no config.json.")
    config = read_config(path)
    core.remember_entries(os.fspath(run), unknown_entries(config))
