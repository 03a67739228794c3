"""Data: transitions collected by others."""

from typing import Any

_ABOVE = {
    "record": "record",
    "load": "convert",
    "convert": "convert",
    "label": "datasets.label",
}  # of `forage.studies`, above this package
_HERE = ("from_arrays", "from_frame", "save")  # of `forage.data.frames`


def __getattr__(name: str) -> Any:
    """Import a name from a higher layer at its first use: those modules play runs and look up environments."""
    if name == "read":
        raise AttributeError("forage.data.read is called forage.data.load now")
    import importlib

    if name in _HERE:
        return getattr(importlib.import_module("forage.data.frames"), name)
    if name not in _ABOVE:
        raise AttributeError(f"module 'forage.data' has no attribute {name!r}")
    return getattr(importlib.import_module(f"forage.studies.{_ABOVE[name]}"), name)
