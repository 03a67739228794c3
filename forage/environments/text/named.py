"""Parts by name, of a table from names to `module:Class`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from forage.core.errors import ForageError, nearest


def class_of(table: Mapping[str, str], package: str, name: str) -> Any:
    """Return the class that a table names."""
    module, _, kind = table[name].partition(":")
    return getattr(importlib.import_module(f"{package}.{module}"), kind)


def parameters(part: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a class's constructor."""
    return inspect.signature(part).parameters


def required_parameters(part: Any) -> list[str]:
    """Return the required parameters of a class's constructor."""
    return [name for name, one in parameters(part).items() if one.default is one.empty]


def call_own(name: str, what: str, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Return the result of a person's function. Raise `ForageError` with its place for any error of its own."""
    try:
        return function(*given, **named)
    except ForageError:
        raise
    except Exception as error:
        raise ForageError(
            f"{name} failed in {what} with {type(error).__name__}: {str(error).rstrip('.')}; mend it there."
        ) from error


def make_part(what: str, table: Mapping[str, str], package: str, name: str, options: Mapping[str, Any]) -> Any:
    """Return a part by its name, with options of its class.

    Args:
        what: What the table's parts are called in a sentence, such as game.
        table: By name, the module below `package`, and the class.
        package: Where the modules are.
        name: Which part is wanted.
        options: What its class is called with.

    Raise ForageError if there is none of that name, and where the class does not take the options.
    """
    if name.endswith(".py"):
        raise ForageError(f"{name} is a file; name the {what} in it too, as in {name}:name.")
    if name not in table:
        raise ForageError(f"There is no {what} {name!r}{nearest(name, table)}")
    part = class_of(table, package, name)
    others = [other for other in table if not required_parameters(class_of(table, package, other))]
    return make_checked(what, name, part, options, f" Take one that needs nothing: {', '.join(others)}.")


def make_checked(what: str, name: str, part: Any, options: Mapping[str, Any], advice: str = "") -> Any:
    """Return an instance of a class. Raise ForageError for options that its constructor does not take or lacks."""
    fields = parameters(part)
    if unknown := [option for option in options if option not in fields]:
        words = ", ".join(options)
        raise ForageError(
            f"The {what} {name!r} cannot be made of {words}: it has no option {unknown[0]!r}"
            f"{nearest(unknown[0], fields)}"
        )
    if missing := [field for field in required_parameters(part) if field not in options]:
        call = (
            f", which an option cannot give; it is for programs that call it as {part.__name__}({missing[0]}).{advice}"
        )
        rest = call if advice else f"; give --env.{missing[0]}."
        raise ForageError(f"The {what} {name!r} needs its {missing[0]}{rest}")
    try:
        return part(**options)
    except TypeError as error:
        raise ForageError(f"The {what} {name!r} cannot be made of {options}: {error}.") from None
