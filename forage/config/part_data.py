"""Parts as plain data, as a run's config.json and a claim hold them, and back."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

from forage.config import former, part_options, registry, values
from forage.core.errors import ForageError, nearest


@typing.runtime_checkable
class Array(typing.Protocol):
    """An array of NumPy or JAX, known without importing either."""

    def tolist(self) -> Any: ...


def to_config(part: Any) -> dict[str, Any]:
    """Return a part as plain data: its name and its fields, parts within it likewise.

    Of what is no plain data, such as a function, only a description remains, and `from_config` says so.
    """

    def plain(value: Any) -> Any:
        if part_options.is_a(type(value), "Part"):
            return to_config(value)
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return [plain(item) for item in value]
        if isinstance(value, Array):
            return value.tolist()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        return values.plain(value)

    options = {f.name: plain(getattr(part, f.name)) for f in dataclasses.fields(part)}
    return {"part": registry.part_name(part)} | origin_of(part) | options


ORIGIN = "from"
"""The key of a part's plain data that holds the package it is of; no option can have the name, a word of Python's."""


def origin_of(part: Any) -> dict[str, str]:
    """Return the package of a part by `ORIGIN`; an empty table for parts of Forage and of the user."""
    if type(part).__module__.startswith("forage."):
        return {}
    from forage.config import packages

    package = packages.package_of(type(part).__module__)
    return {} if package is None or package.own else {ORIGIN: package.title}


def current_name(config: dict[str, Any]) -> str:
    """Return the present name of a part that is stored as plain data; other packages keep their names."""
    return config["part"] if config.get(ORIGIN) else former.stored_name(config["part"])


def stored_target(config: dict[str, Any]) -> str | None:
    """Return `module:Class` of a part that is stored as plain data; None if no installed part has its name.

    A part of a package is looked up there, so that no other package and no newer part of Forage takes its place.
    """
    package, name = config.get(ORIGIN), current_name(config)
    if package and ":" not in name:
        from forage.config import packages

        return packages.target_in(str(package), name)
    known = next((table[name] for table in registry.PORTS.values() if name in table), None)
    return known or next(filter(None, (registry.target_of(port, name) for port in registry.PORTS)), None)


def stored_name(config: dict[str, Any]) -> str:
    """Return the name by which `part_class` finds a part that is stored as plain data."""
    if (target := stored_target(config)) is None:
        return config["part"]
    return registry.name_of_target(target) or target


def from_config(config: dict[str, Any]) -> Any:
    """Return the inverse of `to_config`. Raise `PythonObject` for an object stored only as a description."""
    name, target = current_name(config), stored_target(config)
    if target is None and ":" not in name:
        raise ForageError(
            f"Unknown part {name!r}{nearest(name, [one for port in registry.PORTS for one in registry.parts(port)])}"
        )
    cls = registry.load(target) if target else registry.own_class(name)
    if not hasattr(cls, "__dataclass_fields__"):
        raise ForageError(f"{name} is no part; a subclass of one in forage.core.ports works.")
    known = {f.name for f in dataclasses.fields(cls)}
    options = {}
    for key, value in former.with_today(config, known).items():
        if key in ("part", ORIGIN):
            continue
        if key not in known:
            raise ForageError(f"{name} has no option {key!r}{nearest(key, known)}")
        options[key] = rebuild_value(value, f"{name}'s {key}")
    if part_options.is_a(cls, "Part"):
        options = cls.translate_options(options)
    return registry.make_part(cls, values.resolve_words(cls, options))


def rebuild_value(value: Any, what: str) -> Any:
    if isinstance(value, list):
        return tuple(rebuild_value(item, what) for item in value)
    if isinstance(value, dict) and "object" in value:
        raise PythonObject(f"{what} was a Python object, {value['object']}.")
    if isinstance(value, dict) and "schedule" in value:
        return value["schedule"]
    return from_config(value) if isinstance(value, dict) and "part" in value else value


class PythonObject(ForageError):
    """An error for a part that holds an object that a configuration file cannot."""
