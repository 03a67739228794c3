"""Data: transitions that somebody else collected."""

from typing import Any

_ABOVE = {
    "record": "record",
    "read": "convert",
    "convert": "convert",
    "label": "datasets.label",
}  # of `forage.studies`, above this package


def __getattr__(name: str) -> Any:
    """Import what stands above this package when it is first used: it plays runs and knows environments by name."""
    if name not in _ABOVE:
        raise AttributeError(f"module 'forage.data' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"forage.studies.{_ABOVE[name]}"), name)
