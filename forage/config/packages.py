"""Parts that installed packages add, found by their entry points of the group `forage.parts`.

An entry point names a module that says as plain data what the package brings, so that none of its parts is imported
before somebody names it:

    PARTS     by port, the name of each part and its `module:Class`; the only one that must be there
    PRESETS   `module:NAME` of a tuple of `forage.config.presets.Preset`
    MEANINGS  by the name of an option, the sentence that explains it in every part of the package
    RANGES    by the name of an option, its `forage.core.ranges.Range` as a tuple
    CLAIMS    the package with files of its claims; see `forage.studies.claims.rows`
    PAGES     the address of a site with a page NAME for each part

Names of Forage's own parts are known without looking here. A package that cannot be imported, and a name that two
packages claim, cost a warning of one sentence, and the other parts stay.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from forage.core.errors import ForageError
from forage.core.ranges import Range

GROUP = "forage.parts"
OWN = "forage-rl"
"""Forage's own distribution; its parts keep their names if another package claims them too."""
PORTS = ("agent", "tasks", "starts", "behaviour", "rewards", "memory")


class Package(NamedTuple):
    """A package that adds parts, and the tables of its entry point."""

    name: str  # of its module
    own: bool  # part of Forage's distribution
    path: Path  # of its module's folder
    parts: dict[str, dict[str, str]]
    meanings: dict[str, str]
    ranges: dict[str, Range]
    presets: str
    claims: str
    pages: str


class Names(NamedTuple):
    """The names that packages add at each port."""

    parts: dict[str, dict[str, str]]  # `module:Class` by port and name
    disputed: dict[tuple[str, str], tuple[str, ...]]  # the classes that claim one name, by port and name


@functools.cache
def installed() -> tuple[Package, ...]:
    """Load the tables of every installed package that adds parts: Forage's own first, others by name.

    Warns of a package that cannot be imported or whose tables are wrong, and leaves it out.
    """
    found = {}
    for entry in importlib.metadata.entry_points(group=GROUP):
        if entry.value in found:  # installed twice, such as once as an editable checkout
            continue
        own = entry.dist is not None and entry.dist.name == OWN
        try:
            found[entry.value] = load_tables(entry.value, own)
        except Exception as error:  # whatever a stranger's module raises
            said = " ".join(str(error).split()) or type(error).__name__
            warn(f"The parts of the package {entry.value} are left out: {said.rstrip('.')}.")
    return tuple(sorted(found.values(), key=lambda package: (not package.own, package.name)))


def load_tables(name: str, own: bool = False) -> Package:
    """Import the module of an entry point and check its tables. Raise `ForageError` for tables of another form."""
    module = importlib.import_module(name)
    parts = getattr(module, "PARTS", None)
    if not isinstance(parts, dict):
        raise ForageError("it has no table PARTS of its parts by port")
    for port, table in parts.items():
        if port not in PORTS:
            raise ForageError(f"PARTS has a port {port!r}, and the ports are {', '.join(PORTS)}")
        if not isinstance(table, dict) or not all(is_target(target) for target in table.values()):
            raise ForageError(f"PARTS[{port!r}] has to give each name a text 'module:Class'")
    return Package(
        name,
        own,
        Path(module.__file__ or "").parent,
        parts,
        dict(getattr(module, "MEANINGS", {})),
        {option: Range(*ends) for option, ends in getattr(module, "RANGES", {}).items()},
        str(getattr(module, "PRESETS", "")),
        str(getattr(module, "CLAIMS", "")),
        str(getattr(module, "PAGES", "")),
    )


def is_target(target: Any) -> bool:
    """Return whether a value is text of the form `module:Class`."""
    return isinstance(target, str) and target.count(":") == 1 and all(target.split(":"))


@functools.cache
def names() -> Names:
    """Join the names of all packages. Warn of each name that is claimed twice.

    A name of Forage's own stays Forage's. A name that two other packages claim is neither's, so that installing one
    of them never changes the meaning of a stored run.
    """
    from forage.config.registry import PORTS as core

    taken = {(port, name) for port, table in core.items() for name in table}
    claims: dict[tuple[str, str], list[str]] = {}
    for package in installed():
        for port, name, target in ((port, *row) for port, table in package.parts.items() for row in table.items()):
            if (port, name) in taken:
                warn(f"{package.name} adds {name!r} to the port {port}, as Forage does; name it in full as {target}.")
            else:
                claims.setdefault((port, name), []).append(target)
        if package.own:
            taken |= claims.keys()
    parts: dict[str, dict[str, str]] = {port: {} for port in PORTS}
    disputed = {}
    for (port, name), targets in claims.items():
        if len(targets) == 1:
            parts[port][name] = targets[0]
        else:
            disputed[port, name] = tuple(targets)
            warn(f"Packages share the name {name!r} for the port {port}; the full names are {' and '.join(targets)}.")
    return Names(parts, disputed)


def package_of(module: str) -> Package | None:
    """Return the package that a module is of; None for Forage's core and for others that add no parts."""
    if module.partition(".")[0] == "forage":
        return None
    return next((one for one in installed() if f"{module}.".startswith(f"{one.name}.")), None)


def warn(sentence: str) -> None:
    """Warn the user of the library."""
    warnings.warn(sentence, stacklevel=3)
