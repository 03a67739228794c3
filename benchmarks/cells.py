"""Tables of results, one file each: a map from a cell's name to its result, which processes write in turns."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    """Return all cells of a table; none where nothing has been written yet."""
    return json.loads(path.read_text()) if path.exists() else {}


def put(path: Path, name: str, cell: Any) -> None:
    """Add a cell, or write it anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path):
        write(path, read(path) | {name: cell})


def write(path: Path, cells: dict[str, Any]) -> None:
    """Write a whole table, sorted by name. Whoever reads meanwhile finds the old one or the new one."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(cells[name])}" for name in sorted(cells))
    part = path.with_suffix(".part")
    part.write_text("{\n" + lines + "\n}\n")
    os.replace(part, path)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process writes the table, and keep others out meanwhile. Windows does not keep them out."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fingerprint(told: Any) -> str:
    """Return twelve hexadecimal digits that stand for plain data: what a cell was made from."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]
