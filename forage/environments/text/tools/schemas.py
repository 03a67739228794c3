"""JSON schemas of functions, from annotations and docstrings, in the form that chat templates show.

A schema is that of transformers' `get_json_schema` for the same function, so that a model reads what it was trained on.
"""

from __future__ import annotations

import enum
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union

from forage.core.errors import ForageError

SCALARS: dict[Any, str] = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}
CONTAINERS: dict[Any, str] = {list: "array", tuple: "array", dict: "object"}
SECTIONS = "Args", "Returns", "Raises"


def function_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the schema of a function. Raise `ForageError` if a policy could not call the function by it."""
    name = getattr(function, "__name__", type(function).__name__)
    if not inspect.getdoc(function):
        raise ForageError(f"The tool {name} has no docstring, and its first sentence tells the policy what it does.")
    sections = docstring_sections(inspect.getdoc(function) or "")
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:
        raise ForageError(f"The annotations of the tool {name} cannot be read: {error}.") from error
    described, properties, required = described_arguments(sections.get("Args", "")), {}, []
    for argument in signature_of(function).parameters.values():
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD, argument.POSITIONAL_ONLY):
            raise ForageError(
                f"The tool {name} takes {argument}, and a policy gives arguments by their names; name each of them."
            )
        if argument.name not in hints:
            raise ForageError(
                f"The argument {argument.name} of the tool {name} has no type; annotate it, as in {argument.name}: str."
            )
        properties[argument.name] = argument_schema(name, argument.name, hints[argument.name], described)
        required += [argument.name] if argument.default is argument.empty else []
    parameters = {"type": "object", "properties": properties} | ({"required": required} if required else {})
    found: dict[str, Any] = {"name": name, "description": sections[""], "parameters": parameters}
    if (returned := type_schema(hints["return"]) if "return" in hints else None) is not None:
        found["return"] = returned | ({"description": sections["Returns"]} if sections.get("Returns") else {})
    return {"type": "function", "function": found}


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function. Raise `ForageError` for one written in C that has none."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise ForageError(f"{function!r} has no signature that can be read, and so is no tool.") from None


def argument_schema(tool: str, name: str, hint: Any, described: Mapping[str, str]) -> dict[str, Any]:
    """Return the schema of one argument, with its description and choices as the docstring has them."""
    schema = type_schema(hint)
    if schema is None:
        raise ForageError(
            f"The argument {name} of the tool {tool} is a {getattr(hint, '__name__', hint)}, which JSON cannot write; "
            f"int, float, str, bool, Literal, enums, and lists, tuples and dictionaries of them work."
        )
    if name not in described:
        return schema
    text = described[name]
    if choices := re.search(r"\(choices:\s*(.*?)\)\s*$", text, flags=re.IGNORECASE):
        try:
            schema["enum"] = [one.strip() if isinstance(one, str) else one for one in json.loads(choices[1])]
        except (ValueError, TypeError):
            raise ForageError(f"The choices of {name} of the tool {tool} are no JSON list: {choices[1]}.") from None
        text = text[: choices.start()].strip()
    return schema | {"description": text}


def type_schema(hint: Any) -> dict[str, Any] | None:
    """Return the schema of an annotation; `None` if JSON cannot write such values."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return choice_schema([member.value for member in hint])
    if origin is Literal:
        return choice_schema(list(inner))
    if origin is None:
        return {"type": (SCALARS | CONTAINERS)[hint]} if hint in SCALARS or hint in CONTAINERS else None
    if origin is Union or origin is types.UnionType:
        return union_schema(inner)
    parts = [type_schema(one) for one in inner]
    if origin not in CONTAINERS or None in parts or ... in inner:
        return None
    more = {list: "items", dict: "additionalProperties"}
    if origin is tuple:
        return {"type": "array", "prefixItems": parts} if len(parts) > 1 else None
    return {"type": CONTAINERS[origin], more[origin]: parts[-1]}


def choice_schema(values: Sequence[Any]) -> dict[str, Any] | None:
    """Return the schema of a choice among values; `None` if JSON cannot write one of them."""
    if not values or any(type(value) not in SCALARS for value in values):
        return None
    kinds = list(dict.fromkeys(SCALARS[type(value)] for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(values)}


def union_schema(hints: Sequence[Any]) -> dict[str, Any] | None:
    """Return the schema of any one of several annotations; one without `None` that may be missing is `nullable`."""
    parts = [type_schema(hint) for hint in hints if hint is not type(None)]
    if None in parts:
        return None
    known = [part for part in parts if part is not None]
    if len(known) == 1:
        found = known[0]
    elif all(part.keys() == {"type"} and isinstance(part["type"], str) for part in known):
        kinds = sorted({part["type"] for part in known})
        found = {"type": kinds[0] if len(kinds) == 1 else kinds}
    else:
        found = {"anyOf": known}
    return found | ({"nullable": True} if type(None) in hints else {})


def docstring_sections(text: str) -> dict[str, str]:
    """Return the parts of a docstring in Google's form by their headings; the description has none."""
    found: dict[str, list[str]] = {"": []}
    at = ""
    for line in text.strip().splitlines():
        heading = line.strip().removesuffix(":")
        if line.strip().endswith(":") and heading in SECTIONS:
            at = heading
            found[at] = []
        else:
            found[at].append(line)
    return {
        name: "\n".join(lines).strip("\n").rstrip() if name == "Args" else "\n".join(lines).strip()
        for name, lines in found.items()
    }


def described_arguments(section: str) -> dict[str, str]:
    """Return the description of each argument of a docstring's section; deeper lines belong to the one before."""
    found: dict[str, str] = {}
    name, depth = "", 0
    for line in filter(str.strip, section.splitlines()):
        indent = len(line) - len(line.lstrip())
        begun = re.match(r"\s*(\w+)(?:[ \t]*\([^()\n]*\))?:\s*(.*)", line)
        if begun and (not name or indent <= depth):
            name, depth = begun[1], indent
            found[name] = begun[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
