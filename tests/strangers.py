"""Packages of strangers, installed for a test."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from forage.config import packages
from forage.config.help import declared
from forage.studies.claims import rows


def install(site: Path, distribution: str, files: Mapping[str, str], module: str = "") -> None:
    """Write a package's files and the records of its installation into a folder of packages."""
    name = distribution.replace("-", "_")
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    records = site / f"{name}-0.1.dist-info"
    records.mkdir()
    (records / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1\n")
    (records / "entry_points.txt").write_text(f"[{packages.GROUP}]\nparts = {module or name}\n")


def forget() -> None:
    """Let packages be looked up again, and modules be imported again."""
    importlib.invalidate_caches()
    for known in (
        packages.load_packages,
        packages.names,
        rows.folders,
        rows.find_rows,
        declared.source,
        declared.parse_module,
    ):
        known.cache_clear()


def site_at(folder: Path) -> Iterator[Path]:
    """Put a folder of packages on Python's path. After use, remove it and the modules that came from it."""
    before = set(sys.modules)
    folder.mkdir()
    sys.path.insert(0, str(folder))
    forget()
    yield folder
    sys.path[:] = [one for one in sys.path if one != str(folder)]
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
    forget()
