"""Checks of arguments against their declared types, in one sentence and before any use."""

from __future__ import annotations

import dataclasses
import functools
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from forage.core.errors import ForageError, check_path
from forage.core.schedule import Schedule

WORDS: dict[Any, tuple[str, str]] = {  # of one, and of what a list of them has
    bool: ("true or false", "truth values"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
    os.PathLike: ("a path", "paths"),
}


def check_kinds(given: Mapping[str, Any], wanted: Mapping[str, Any], owner: str = "") -> None:
    """Raise `ForageError` for the first value that is not of the type `wanted` of its name; unknown types take all."""
    for name, value in given.items():
        kind = wanted.get(name, Any)
        if not fits(value, kind):
            of = f" of {owner}" if owner else ""
            raise ForageError(f"{name}{of} is {words(kind)}, not {shown(value)}.")
        if names_paths(kind):
            for path in [value] if isinstance(value, str | os.PathLike) else value if isinstance(value, list) else []:
                check_path(path)


def names_paths(wanted: Any) -> bool:
    """Return whether values of a type may be paths."""
    return typing.get_origin(wanted) is os.PathLike or any(map(names_paths, typing.get_args(wanted)))


def check_fields(part: Any, name: str) -> None:
    """Raise `ForageError` for a field of a wrong type in a part that messages call `name`."""
    usual = {field.name: field.default for field in dataclasses.fields(part)}
    changed = {field: value for field in usual if (value := getattr(part, field)) is not usual[field]}
    check_kinds(changed, types_of(type(part)), name)


def check_call(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise `ForageError` for the first argument of a function that is not of the type it is annotated with."""
    check_kinds(given, typing.get_type_hints(function))


@functools.cache
def types_of(cls: type) -> dict[str, Any]:
    """Return the types of a part's options, by name."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints.get(field.name, Any) for field in dataclasses.fields(cls)}


def fits(value: Any, wanted: Any) -> bool:
    """Return whether a value is of a type, as far as the type is one of numbers, texts, paths and lists of these."""
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, one) for one in inner)
    if wanted is types.NoneType:
        return value is None
    if isinstance(value, Schedule):
        return True  # that there can be one was checked where it was made
    if wanted in (bool, int, float) and hasattr(value, "dtype"):
        kind = {bool: np.bool_, int: np.integer, float: np.number}[wanted]
        return value.shape == () and np.issubdtype(value.dtype, kind)
    if wanted in (int, float):
        return isinstance(value, (int, wanted)) and not isinstance(value, bool)
    if wanted in (bool, str):
        return isinstance(value, wanted)
    if origin is tuple:
        return isinstance(value, (tuple, list)) and all(fits(item, inner[0]) for item in value)
    if origin is os.PathLike:
        return isinstance(value, os.PathLike)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(fits(item, inner[1]) for item in value.values())
    if origin is Sequence:
        listed = isinstance(value, (Sequence, Set)) or getattr(value, "ndim", 0) == 1
        listed = listed and not isinstance(value, str)
        return listed and all(fits(item, inner[0]) for item in value)
    return True


def words(wanted: Any) -> str:
    """Describe the values of a type."""
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (types.UnionType, typing.Union):
        named = [words(one) for one in inner if one is not types.NoneType]
        return " or ".join([*named, *(["None"] if types.NoneType in inner else [])])
    if origin is tuple:
        example = " such as (64, 64)" if inner[0] is int else ""
        return f"a list of {WORDS.get(inner[0], ('', 'values'))[1]}{example}"
    if origin is Mapping:
        return "a dictionary" + (f" of {words(inner[1])}" if inner[1] is not Any else "")
    if origin is Sequence:
        return f"a list of {WORDS.get(inner[0], ('', 'values'))[1]}"
    return WORDS.get(origin or wanted, (getattr(wanted, "__name__", str(wanted)), ""))[0]


def shown(value: Any) -> str:
    """Return a value's text in a sentence, or its type if the text is long."""
    text = repr(value)
    return text if len(text) <= 60 and not text.startswith("<") else f"a {type(value).__name__}"
