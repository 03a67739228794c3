"""Named settings: parts that only change defaults of another part, as rows of a table.

A package's module of named settings has a table, and hands out the class of each row when somebody asks for it:

    SETTINGS = {"REDQ": setting("package.sac:SAC", summary="...", source="...", example="...", critics=10)}

    def __getattr__(name):
        return class_of(__name__, SETTINGS, name)

So the part that a row builds on is imported only with the row, and `module:REDQ` names a class like any other.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
import threading
import types
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

MAKING = threading.RLock()
"""Held while a class is made, so that two threads get the same one."""


class Setting(NamedTuple):
    """A part that changes defaults of another part."""

    base: str  # `module:Class` of the other part
    summary: str
    source: str  # authors, year, title and number of the paper
    words: str  # formulas, and differences from the paper and its authors' program
    example: str  # a command that uses it
    defaults: Mapping[str, Any]  # of fields, and of class attributes such as `usual_behaviour`
    meanings: Mapping[str, str]  # of fields with another explanation than in the other part


def setting(
    base: str,
    *,
    summary: str,
    source: str,
    example: str,
    words: str = "",
    meanings: Mapping[str, str] | None = None,
    **defaults: Any,
) -> Setting:
    """Return a row, with the changed defaults as further arguments."""
    return Setting(base, summary, source, inspect.cleandoc(words), example, defaults, meanings or {})


def class_of(module: str, table: Mapping[str, Setting], name: str) -> type:
    """Return the class of a row, which becomes an attribute of its module.

    Raise `AttributeError` if no row has that name, as modules do.
    """
    if name not in table:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    with MAKING:
        namespace = vars(sys.modules[module])
        if name not in namespace:
            namespace[name] = make_class(module, name, table[name])
        return namespace[name]


def make_class(module: str, name: str, row: Setting, base: Any = None) -> type:
    """Return a subclass of the row's part with other defaults, kept static where the part's own are.

    `base`: the class of that part, by default its own, which is imported.
    """
    where, _, base_name = row.base.partition(":")
    base = base or getattr(importlib.import_module(where), base_name)
    known, hints = {field.name: field for field in dataclasses.fields(base)}, typing.get_type_hints(base)
    attributes: dict[str, Any] = {
        "__module__": module,
        "__qualname__": name,
        "__doc__": "\n\n".join(filter(None, (row.summary, f"{row.source}.", row.words))),
        "__annotations__": {},
        "example": row.example,
        "setting": row,
    }
    for option, value in row.defaults.items():
        if option in known:
            attributes["__annotations__"][option] = hints[option]
            attributes[option] = dataclasses.field(default=value, metadata=known[option].metadata)
        elif hasattr(base, option):
            attributes[option] = value
        else:
            raise TypeError(f"{name} sets {option}, and {base_name} has no such option")
    return types.new_class(name, (base,), {}, lambda body: body.update(attributes))
