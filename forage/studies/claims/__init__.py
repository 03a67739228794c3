"""Claims: the central statements of papers, each as a small experiment that runs (`forage claim NAME`).

Packages that add parts bring the claims (`CLAIMS` of their entry point; see `forage.config.packages`). A file of theirs
holds one claim, `CLAIM`; its name is the file's, with dashes. `claim.py` defines it.
"""

import functools
import importlib
import importlib.util
import pkgutil
from pathlib import Path

from forage.config import packages
from forage.core.errors import ForageError, nearest


@functools.cache
def modules() -> dict[str, str]:
    """Return the module of each claim, by its name; a name that two packages have is the first one's."""
    found: dict[str, str] = {}
    for folder in folders():
        for module in pkgutil.iter_modules(importlib.import_module(folder).__path__):
            found.setdefault(module.name.replace("_", "-"), f"{folder}.{module.name}")
    return dict(sorted(found.items()))


def folders() -> list[str]:
    """Return the packages that hold claims."""
    return [package.claims for package in packages.installed() if package.claims]


def names() -> list[str]:
    """Return the name of every claim."""
    return list(modules())


def module_of(name: str) -> str:
    """Return the module of a claim. Raise `ForageError` if no package has it."""
    if name not in modules():
        raise ForageError(f"Unknown claim {name!r}{nearest(name, modules())}")
    return modules()[name]


def file_of(name: str) -> Path:
    """Return the file of a claim."""
    spec = importlib.util.find_spec(module_of(name))
    assert spec is not None  # it was listed
    return Path(spec.origin or "")


def of_part(name: str) -> list[str]:
    """Return the names of the claims about a part: those that a package lists for it, else the one of its own name."""
    tables = [getattr(importlib.import_module(folder), "CLAIMS", {}) for folder in folders()]
    listed = next((table[name] for table in tables if name in table), (name,))
    return [claim for claim in listed if claim in modules()]
