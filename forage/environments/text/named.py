"""Parts by name, of a table from names to `module:Class`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from forage.core.errors import ForageError, nearest


def made(what: str, table: Mapping[str, str], package: str, name: str, options: Mapping[str, Any]) -> Any:
    """Return a part by its name, with options of its class.

    Args:
        what: What the table's parts are called in a sentence, such as game.
        table: By name, the module below `package`, and the class.
        package: Where the modules are.
        name: Which part is wanted.
        options: What its class is called with.

    Raise ForageError if there is none of that name, and where the class does not take the options.
    """
    if name not in table:
        raise ForageError(f"There is no {what} {name!r}{nearest(name, table)}")
    module, _, kind = table[name].partition(":")
    part = getattr(importlib.import_module(f"{package}.{module}"), kind)
    try:
        return part(**options)
    except TypeError as error:
        raise ForageError(f"The {what} {name!r} cannot be made of {options}: {error}.") from None
