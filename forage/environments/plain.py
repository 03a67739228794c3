"""Conversion of an environment's options to plain data for config.json, and back, with arrays and tuples kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from forage.core.types import ForageError


def to_plain(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for JSON. Raise `ForageError` for an option that JSON cannot represent."""

    def plain(option: str, value: Any) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, list):
            return [plain(option, item) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [plain(option, item) for item in value]}
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {"mapping": {key: plain(option, item) for key, item in value.items()}}
        if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biufU":
            return {"array": np.asarray(value).tolist(), "dtype": str(value.dtype)}
        raise ForageError(
            f"The option {option} of {name} is a {type(value).__name__}, which no file can keep; options are numbers, "
            f"texts, None, arrays, and lists, tuples and dictionaries of them, and anything can be in "
            f"functools.partial(Class, {option}=...) given as the environment."
        )

    return {option: plain(option, value) for option, value in options.items()}


def from_plain(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the inverse of `to_plain`."""

    def rebuild(value: Any) -> Any:
        if isinstance(value, list):
            return [rebuild(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "array" in value:
            return np.array(value["array"], value["dtype"])[()]
        if "tuple" in value:
            return tuple(rebuild(item) for item in value["tuple"])
        return {key: rebuild(item) for key, item in value.get("mapping", value).items()}

    return {option: rebuild(value) for option, value in (options or {}).items()}
