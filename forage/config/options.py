"""Command-line options: their conversion to values by the types of fields, with one sentence for a misfit."""

from __future__ import annotations

import ast
import contextlib
import types
import typing
from collections.abc import Collection
from typing import Any

from forage.config.registry import Field
from forage.core.elsewhere import ABSENT_OPTIONS
from forage.core.errors import ForageError, did_you_mean, nearest

Word = str | bool | list[str]
Words = dict[str, Word]
DASHES = "\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}"
"""Characters that editors and pages put in place of two hyphens."""
LISTED = {
    int: "one or more whole numbers with commas between them, such as 64,64",
    float: "one or more numbers with commas between them, such as 0.0003,0.001",
}
"""Descriptions of lists on the command line, by the type of their elements."""


def split(arguments: list[str], flags: set[str], lists: Collection[str] = ()) -> tuple[list[str], Words]:
    """Part words into positional ones and options: `--name value`, `--name=value`, `--flag`, `--no-flag`.

    `flags` take no value; `lists` may be given more than once, and come back as lists. Names come back with `_` for
    `-`, parts' prefixes (`memory.capacity`) kept.
    """
    positional: list[str] = []
    options: Words = {}
    words = iter(arguments)
    for word in words:
        if word and word[0] in DASHES:
            raise ForageError(f"Unknown option {word!r}{did_you_mean(['--' + word.lstrip(DASHES)])}")
        if not word.startswith("--"):
            positional.append(word)
            continue
        name, given, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if name in options and name not in lists:
            raise ForageError(f"--{name.replace('_', '-')} is given twice; give it once.")
        found: str | bool | None = value
        if not given:
            if name in flags:
                found = True
            elif name.startswith("no_"):
                name, found = name[3:], "false"
            else:
                found = next(words, "")
        if isinstance(found, str) and (not found or (not given and found.startswith("--"))):
            if name in ABSENT_OPTIONS:
                raise ForageError(f"There is no option '--{hyphens(name)}': {ABSENT_OPTIONS[name]}")
            raise ForageError(f"--{name.replace('_', '-')} needs a value after it.")
        options[name] = [*many(options, name), str(found)] if name in lists else found  # pyrefly: ignore[unsupported-operation]
    return positional, options


def hyphens(name: str) -> str:
    """Return an option's name as it is printed; underscores are taken as well."""
    return name.replace("_", "-")


def many(words: Words, name: str) -> list[str]:
    """Return the values of an option that may be repeated."""
    found = words.get(name, [])
    return found if isinstance(found, list) else [str(found)]


def whole_number(text: str) -> int:
    """`500k`, `5M`, `1e6`, `20_000` or `500`."""
    scale = {"k": 1_000, "m": 1_000_000, "b": 1_000_000_000}.get(text[-1:].lower(), 1)
    value = float(text[:-1] if scale > 1 else text) * scale
    if value != int(value):
        raise ValueError(text)
    return int(value)


def whole(name: str, value: Any) -> int:
    """Return a whole number as it is given in Python: `500_000`, `5e5` or `"500k"`. Raise `ForageError` for others."""
    try:
        number = whole_number(value) if isinstance(value, str) else int(value)
        if isinstance(value, str) or (number == value and not isinstance(value, bool)):
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise ForageError(f"{name} is a whole number such as 500_000 or '500k', not {value!r}.")


def parse(name: str, text: Word, wanted: Any) -> Any:
    """`text` as the type `wanted`: bool, int, float, str, tuples of these, or any of these or None."""
    text = str(text)
    shown = "--" + name.replace("_", "-")
    origin = typing.get_origin(wanted)
    if origin in (types.UnionType, typing.Union):
        if text.lower() == "none":
            return None
        return parse(name, text, next(a for a in typing.get_args(wanted) if a is not types.NoneType))
    if origin is tuple:
        inner = typing.get_args(wanted)[0]
        parts = [part.strip() for part in text.strip("()[]").split(",") if part.strip()]
        try:
            return tuple(parse(name, part, inner) for part in parts)
        except ForageError:
            if inner not in LISTED:
                raise
            raise ForageError(f"{shown} is {LISTED[inner]}, not {text!r}.") from None
    try:
        if wanted is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]
        if wanted is int:
            return whole_number(text)
        if wanted is float:
            return float(text)
    except (ValueError, KeyError, OverflowError):
        kind = {bool: "true or false", int: "a whole number such as 500k", float: "a number"}[wanted]
        raise ForageError(f"{shown} is {kind}, not {text!r}.") from None
    if wanted is str:
        return text
    raise ForageError(f"{shown} cannot be given on the command line; use Python for it.")


def guess(text: Word) -> Any:
    """Return the value of a text for an option of an environment, whose type is unknown at this point.

    A number, a truth value or `none`; `a,b` is a list of these, and a text that starts with a bracket or a quote is as
    in Python, so that `'a,b'` and `'none'`, with the quotes, are texts. Any other text is itself.
    """
    text = str(text)
    known = {"true": True, "false": False, "none": None}
    if text.lower() in known:
        return known[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if text[:1] in ("[", "(", "{", "'", '"'):
        with contextlib.suppress(ValueError, SyntaxError):
            return ast.literal_eval(text)
    if text[:1] + text[-1:] in ("[]", "()"):
        found = [guess(part.strip()) for part in text[1:-1].split(",") if part.strip()]
        return found if text[0] == "[" else tuple(found)
    if "," in text:
        return [guess(part.strip()) for part in text.split(",") if part.strip()]
    return text


def fill(words: Words, fields: list[Field], prefix: str, owner: str) -> dict[str, Any]:
    """Take the options that set `fields` out of `words`; raise `ForageError` for those with the prefix that set none.

    Without a prefix, what is not a field stays in `words` for somebody else.
    """
    known = {field.name: field for field in fields}
    values = {}
    for word in list(words):
        if prefix and not word.startswith(prefix + "."):
            continue
        name = word[len(prefix) + 1 :] if prefix else word
        if name in known:
            text = str(words.pop(word))
            is_own = ":" in text and float in (known[name].type, *typing.get_args(known[name].type))
            values[name] = text if is_own else parse(word, text, known[name].type)  # a schedule, in words
        elif prefix:
            raise ForageError(f"{owner} has no option {hyphens(name)!r}{nearest(name, map(hyphens, known))}")
    return values
