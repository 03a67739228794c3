"""Data: transitions that somebody else collected."""

from typing import Any


def __getattr__(name: str) -> Any:
    """Import `record`, which plays a run and so stands above this package, when it is first used."""
    if name != "record":
        raise AttributeError(f"module 'forage.data' has no attribute {name!r}")
    import importlib

    return importlib.import_module("forage.studies.record").record
