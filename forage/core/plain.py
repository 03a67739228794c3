"""Plain data: JSON of values that include NumPy and JAX numbers, as they come from loops, tables and measurements."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Mapping
from typing import Any


def dumps(data: Any, **options: Any) -> str:
    """Return data as JSON, numbers and arrays of NumPy and JAX among it as the numbers and lists that they are.

    `options`: those of `json.dumps`.
    """
    return json.dumps(data, default=plain_number, **options)


def plain_number(value: Any) -> Any:
    """Return a number or an array as plain data. Raise `TypeError` for anything else, as JSON does."""
    if hasattr(value, "__array__"):
        import numpy as np

        return np.asarray(value).tolist()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def python_numbers(value: Any) -> Any:
    """Return nested dictionaries, lists and tuples with the numbers of NumPy as Python's own; arrays stay arrays."""
    numpy = sys.modules.get("numpy")  # where nobody has imported it, there is no number of it
    if numpy is not None and isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {name: python_numbers(inner) for name, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(python_numbers(inner) for inner in value)
    return value


def package_version(package: str) -> str:
    """Return the version of an installed package, or `a checkout` if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "a checkout"
