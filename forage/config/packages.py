"""Parts that installed packages add, found by their entry points of the group `forage.parts`.

An entry point names a module that says as plain data what the package brings, so that none of its parts is imported
before somebody names it:

    PARTS     by port, the name of each part and its `module:Class`; the only one that must be there
    PRESETS   `module:NAME` of a tuple of `forage.config.presets.Preset`
    MEANINGS  by the name of an option, the sentence that explains it in every part of the package
    RANGES    by the name of an option, its `forage.core.ranges.Range` as a tuple
    CLAIMS    the package with files of its claims; see `forage.studies.claims.rows`
    INNER     `module:Class` of parts that only its other parts contain, each with a tuple of its former names
    ALIASES   names that other libraries have for its parts, each with the name here
    PAGES     the address of a site with a page NAME for each part

Names of Forage's own parts are known without looking here. A package that cannot be imported, and a name that two
packages claim, cost a warning of one sentence, and the other parts stay.

An entry point of the group `forage.policies` names a module whose folder `policies` holds trained runs, each without
its checkpoints. `zoo:ppo-cartpole` is the run `ppo-cartpole` of the package whose entry point is called `zoo`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from forage.config.options import WINGS
from forage.core.errors import ForageError, nearest, warn
from forage.core.ranges import Range

GROUP = "forage.parts"
OWN = "forage-rl"
"""Forage's own distribution; its parts keep their names if another package claims them too."""
NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")
"""A part's name: one word of the command line, without the colon of `module:Class`."""
POLICIES = "forage.policies"
POLICY = re.compile(r"([A-Za-z][\w-]+):([\w.-]*)")
ZOOS = {"zoo": "forage-zoo"}
"""Packages of Forage's own with policies, by the name of their entry point."""


class Package(NamedTuple):
    """A package that adds parts, and the tables of its entry point."""

    name: str  # of its module
    title: str  # to show: of the distribution that one installs; of the module where that is Forage's own
    own: bool  # part of Forage's distribution
    parts: dict[str, dict[str, str]]
    meanings: dict[str, str]
    ranges: dict[str, Range]
    presets: str
    claims: str
    pages: str
    aliases: dict[str, str]
    inner: dict[str, tuple[str, ...]]

    def find_target(self, name: str) -> str | None:
        """Return `module:Class` of one of its parts; None if it has no part of this name."""
        return next((table[name] for table in self.parts.values() if name in table), None)

    def closeness(self, module: str) -> int:
        """Count the leading names that a module shares with the package's modules; 0 for a stranger's module."""
        own = [f"{target.partition(':')[0]}." for table in self.parts.values() for target in table.values()]
        own.append(f"{self.name}.")
        names = module.split(".")
        shared = (count for count in range(len(names), 0, -1) if is_start(".".join((*names[:count], "")), own))
        return next(shared, 0)


class Names(NamedTuple):
    """The names that packages add at each port."""

    parts: dict[str, dict[str, str]]  # `module:Class` by port and name
    disputed: dict[str, tuple[str, ...]]  # the classes that claim one name, by name


def is_start(names: str, modules: Sequence[str]) -> bool:
    """Return whether one of some modules begins with these names; each of both ends with a point."""
    return any(module.startswith(names) for module in modules)


@functools.cache
def load_packages() -> tuple[Package, ...]:
    """Load the tables of every installed package that adds parts: Forage's own first, others by name.

    Warns of a package that cannot be imported or whose tables are wrong, and leaves it out.
    """
    found: dict[str, Package | None] = {}
    for entry in importlib.metadata.entry_points(group=GROUP):
        if entry.value in found:  # installed twice, such as once as an editable checkout
            continue
        found[entry.value] = None
        distribution = "" if entry.dist is None else entry.dist.name
        title = distribution if distribution not in ("", OWN) else entry.value
        try:
            found[entry.value] = load_tables(entry.value, title, distribution == OWN)
        except ForageError as error:
            warn(f"The parts of the package {title} are left out: {str(error).rstrip('.:')}.")
    return tuple(sorted(filter(None, found.values()), key=lambda package: (not package.own, package.name)))


def import_tables(name: str) -> ModuleType:
    """Import a module of a package. Raise `ForageError` for any error of its code, a call of `sys.exit` too."""
    try:
        return importlib.import_module(name)
    except BaseException as error:
        from forage.core.loading import refusal

        raise refusal(name, error) from error


def load_tables(name: str, title: str = "", own: bool = False) -> Package:
    """Import the module of an entry point and check its tables. Raise `ForageError` for tables of another form."""
    module = import_tables(name)
    parts = getattr(module, "PARTS", None)
    if not isinstance(parts, dict):
        raise ForageError(f"{name} has no table PARTS of its parts by port")
    for port, table in parts.items():
        if port not in WINGS:
            raise ForageError(f"PARTS of {name} has a port {port!r}, and the ports are {', '.join(WINGS)}")
        if not isinstance(table, dict) or not all(map(is_target, table.values())):
            raise ForageError(f"PARTS[{port!r}] of {name} has to give each name a text 'module:Class'")
        if wrong := [one for one in table if not isinstance(one, str) or not NAME.fullmatch(one)]:
            raise ForageError(f"PARTS[{port!r}] of {name} has the name {wrong[0]!r}; a word such as 'my-part' works")
    texts = {table: getattr(module, table, "") for table in ("PRESETS", "CLAIMS", "PAGES")}
    if wrong := [table for table, text in texts.items() if not isinstance(text, str)]:
        raise ForageError(f"{wrong[0]} of {name} has to be a text")
    if texts["PRESETS"] and not is_target(texts["PRESETS"]):
        raise ForageError(f"PRESETS of {name} has to be a text 'module:NAME' of a tuple of presets")
    return Package(
        name,
        title or name,
        own,
        parts,
        texts_by_name(module, "MEANINGS", "option", "sentence"),
        ranges_of(module),
        texts["PRESETS"],
        texts["CLAIMS"],
        texts["PAGES"],
        texts_by_name(module, "ALIASES", "name", "part"),
        inner_of(module),
    )


def is_target(target: Any) -> bool:
    """Return whether a value is text of the form `module:Class`."""
    return isinstance(target, str) and target.count(":") == 1 and all(target.split(":"))


def texts_by_name(module: ModuleType, table: str, key: str, value: str) -> dict[str, str]:
    """Return a table of a module. Raise `ForageError` if it is no table of texts."""
    found = getattr(module, table, {})
    if not isinstance(found, dict) or not all(isinstance(text, str) for pair in found.items() for text in pair):
        raise ForageError(f"{table} of {module.__name__} has to give each {key} a {value}")
    return found


def inner_of(module: ModuleType) -> dict[str, tuple[str, ...]]:
    """Return the table INNER of a module. Raise `ForageError` if it is no table of the former names of parts."""
    found = getattr(module, "INNER", {})
    if not isinstance(found, dict) or not all(map(is_target, found)):
        raise ForageError(f"INNER of {module.__name__} has to give each 'module:Class' a tuple of its former names")
    return {target: tuple(former) for target, former in found.items()}


def ranges_of(module: ModuleType) -> dict[str, Range]:
    """Return the table RANGES of a module. Raise `ForageError` if it is no table of the ends of ranges."""
    found = getattr(module, "RANGES", {})
    if not isinstance(found, dict) or not all(map(is_range, found.values())):
        raise ForageError(f"RANGES of {module.__name__} has to give each option its ends, such as (0, 1)")
    return {option: Range(*ends) for option, ends in found.items()}


def is_range(ends: Any) -> bool:
    """Return whether a value has the fields of a range: two numbers, and whether each of them is left out."""
    if not isinstance(ends, tuple | list) or len(ends) > 4:
        return False
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends[:2])
    return numbers and all(isinstance(end, bool) for end in ends[2:])


@functools.cache
def names() -> Names:
    """Join the names of all packages. Warn of each name that is claimed twice.

    A name is claimed for all ports, as a stored run says it without the port. A name of Forage's own stays Forage's. A
    name that two other packages claim is neither's, so that installing one of them never changes the meaning of a
    command.
    """
    from forage.config.registry import PORTS as core

    taken = {name for table in core.values() for name in table}
    claims: dict[str, list[tuple[str, str]]] = {}
    for package in load_packages():
        rows = [(port, *row) for port, table in package.parts.items() for row in table.items()]
        for port, name, target in rows:
            if name in taken:
                warn(f"{package.title} has a part {name!r}, which is the name of one of Forage's; {target} names it.")
            else:
                claims.setdefault(name, []).append((port, target))
        if package.own:
            taken |= claims.keys()
    parts: dict[str, dict[str, str]] = {port: {} for port in WINGS}
    disputed = {}
    for name, claimed in claims.items():
        if len(claimed) == 1:
            port, target = claimed[0]
            parts[port][name] = target
        else:
            disputed[name] = tuple(target for _, target in claimed)
            warn(f"Installed packages have more than one part {name!r}; {' and '.join(disputed[name])} name them.")
    return Names(parts, disputed)


def package_of(module: str) -> Package | None:
    """Return the package that a module is of; None for Forage's core and for others that add no parts."""
    if module.partition(".")[0] == "forage":
        return None
    close = [(package.closeness(module), package) for package in load_packages()]
    names, found = max(close, key=lambda one: one[0], default=(0, None))
    return found if names else None


def name_here(name: str) -> str | None:
    """Return the name of the part that other libraries call `name`; None without such a package."""
    word = name.lower().replace("-", "_")
    return next((package.aliases[word] for package in load_packages() if word in package.aliases), None)


def inner_targets() -> dict[str, str]:
    """Return `module:Class` of each part that only parts of packages contain, by its present and its former names."""
    tables = (package.inner for package in load_packages())
    return {name: target for table in tables for target, former in table.items() for name in (target, *former)}


def target_in(title: str, name: str) -> str:
    """Return `module:Class` of a part that a stored run has from a package. Raise `ForageError` if it is not here."""
    package = next((one for one in load_packages() if one.title == title), None)
    if package is None:
        raise ForageError(f"The part {name!r} is of the package {title}, which is not installed here.")
    target = package.find_target(name)
    if target is None:
        raise ForageError(f"The package {title}, as it is installed here, has no part {name!r}; another version has.")
    return target


def source_file(module: str) -> Path | None:
    """Return the file of a module of an installed package, without importing it; None if there is none."""
    top, *inner = module.split(".")
    loaded = sys.modules.get(top)
    if not inner and loaded is not None and loaded.__file__:
        return Path(loaded.__file__)
    return next((path for place in getattr(loaded, "__path__", ()) for path in files_in(Path(place), inner)), None)


def files_in(folder: Path, inner: list[str]) -> Iterator[Path]:
    """Yield the file of a module below a package's folder: its `__init__.py` if it is a package."""
    path = folder.joinpath(*inner)
    yield from (one for one in (path / "__init__.py", path.with_suffix(".py")) if one.is_file())


def code_files(package: Package) -> list[Path]:
    """Return the source files of a package's parts: its folder without its claims, and modules that PARTS names."""
    targets = {target.partition(":")[0] for table in package.parts.values() for target in table.values()}
    found = {path for module in (package.name, *targets) if (path := source_file(module))}
    for path in [path for path in found if path.name == "__init__.py"]:
        found |= set(path.parent.rglob("*.py"))
    claims = source_file(package.claims) if package.claims else None
    return sorted(path for path in found if claims is None or claims.parent not in path.parents)


def locate_run(run: str | os.PathLike[str]) -> Path:
    """Return the directory of a run; of an installed policy such as `zoo:ppo-cartpole` a copy in `runs`.

    The copy is made once, so that scores and films have a place. Raise `ForageError` for a policy that is not there.
    """
    text = os.fspath(run)
    match = POLICY.fullmatch(text)
    if match is None or Path(text).exists():
        return Path(run)
    package, name = match.groups()
    folder = policies_of(package)
    if folder is None:
        if package in ZOOS:
            raise ForageError(f"{text} is a policy of a package that is not installed: pip install {ZOOS[package]}.")
        return Path(run)
    known = sorted(one.name for one in folder.iterdir() if (one / "config.json").exists())
    if name not in known:
        raise ForageError(f"{package} has no policy {name!r}{nearest(name, known)}")
    target = Path("runs", package, name)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}.") as scratch:
            shutil.copytree(folder / name, Path(scratch) / name)
            (Path(scratch) / name).rename(target)
        print(f"{text} is copied to {target}.", file=sys.stderr)
    return target


def policies_of(package: str) -> Path | None:
    """Return the folder of the policies of an installed package, by the name of its entry point, without an import."""
    for entry in importlib.metadata.entry_points(group=POLICIES, name=package):
        spec = importlib.util.find_spec(entry.value)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            if (folder := Path(place) / "policies").is_dir():
                return folder
    return None
