"""The user's trust in stored runs: the code that they may import, and the addresses that they may send to.

A run's files are data, and may be somebody else's. Where they name code in a file, or a server, nothing of that is
used unless this person trained with it here, or said once that it is known: `--trust`, or `forage.trust(run)`. What is
known stands in a file of the person's own, by path and hash, and in none of a run's.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from forage.core.errors import ForageError

REACHES = ("url", "key_variable", "publish", "reload")
"""Options of a part that name the addresses it sends to and the environment variable sent along."""

Entry = dict[str, str]
"""The identity of a trusted file, `path` and `sha256` (of the user's own: only `path`), or of a part that sends:
`REACHES`.
"""


@dataclasses.dataclass(frozen=True)
class Reading:
    """A run that is being read."""

    where: str
    entries: tuple[Entry, ...]  # of all that it names, as far as that can be told
    given: frozenset[str]  # files and modules named by the person in this call, and not by what is read


reading: contextvars.ContextVar[Reading | None] = contextvars.ContextVar("reading", default=None)
granted: contextvars.ContextVar[bool] = contextvars.ContextVar("granted", default=False)
known_here: set[str] = set()
"""The entries trusted by this process, if the user's own file cannot be written."""


@contextlib.contextmanager
def guard_stored(
    where: str | os.PathLike[str], entries: Iterable[Entry] = (), given: Iterable[Any] = ()
) -> Iterator[None]:
    """Guard imports and construction within, because they are named by the run or file `where`.

    Args:
        where: The run or the file, for sentences.
        entries: What else it names, so that a person is asked once.
        given: Names that the person gave in this call.
    """
    said = frozenset(source_of(one) for one in given if isinstance(one, str))
    token = reading.set(Reading(os.fspath(where), tuple(entries), said))
    try:
        yield
    finally:
        reading.reset(token)


@contextlib.contextmanager
def granting(every: bool = True) -> Iterator[None]:
    """Trust all entries that are read within, because the user asked for it."""
    token = granted.set(every)
    try:
        yield
    finally:
        granted.reset(token)


def check_source(source: str) -> None:
    """Raise `ForageError` if a stored run names a file or module that is not trusted here. Imports no module."""
    now = reading.get()
    if now is None or source in now.given:
        return
    if source.partition(".")[0] in sys.stdlib_module_names:
        raise ForageError(f"{now.where} names {source}, a module of Python's own, which is no part of a run.")
    files = files_of(source)
    if not files and not source.endswith(".py"):
        raise ForageError(f"{now.where} names the module {source}, and there is none here.")
    check_trusted([entry_of(path) for path in files])


def check_reach(part: str, options: dict[str, Any]) -> None:
    """Raise `ForageError` if a part of a stored run sends to an address that is not known here."""
    if reading.get() is not None and (entry := reach_of(part, options)):
        check_trusted([entry])


def check_trusted(entries: list[Entry]) -> None:
    """Raise `ForageError` for entries that are not trusted, unless the user trusts them now."""
    now = reading.get()
    unknown = [entry for entry in entries if not is_known(entry)]
    if not unknown or now is None:
        return
    unknown += [entry for entry in now.entries if entry not in unknown and not is_known(entry)]
    if not granted.get():
        raise ForageError(
            f"{now.where} {' and '.join(map(entry_words, unknown))}; nothing of that is done before you say that you "
            f"know "
            f"it: add --trust once, or call forage.trust({now.where!r}) in Python."
        )
    remember_entries(now.where, unknown)


def entry_words(entry: Entry) -> str:
    """Describe the permission of an entry."""
    if "url" in entry:
        key = f" with the environment variable {entry['key_variable']}" if entry["key_variable"] else ""
        return f"sends to {entry['url']}{key}" + (f" and writes to {entry['publish']}" if entry["publish"] else "")
    return f"runs code of its maker's own, {entry['path']} (SHA-256 {entry['sha256'][:16]})"


def entry_of(path: Path) -> Entry:
    """Return the entry of a file: its path and its hash."""
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ForageError(f"{path} cannot be read: {error.strerror or error}.") from error
    return {"path": str(path), "sha256": found}


def reach_of(part: str, options: dict[str, Any]) -> Entry | None:
    """Return the entry of a part that sends to an address; `None` for other parts."""
    if not any(options.get(name) for name in ("url", "publish")):
        return None
    return {"part": part} | {name: str(options.get(name) or "") for name in REACHES}


def source_of(name: str) -> str:
    """Return the file or module of `file.py:Name` or `module:Name`."""
    return name.rpartition(":")[0]


def files_of(source: str) -> list[Path]:
    """Return the files that importing a file or a module would run, without importing; none if it is not there.

    Of a module in packages these are the packages' own files, too.
    """
    if source.endswith(".py"):
        path = Path(source).expanduser().resolve()
        return [path] if path.is_file() else []
    here = str(Path.cwd())
    places: list[str] | None = sys.path if here in sys.path else [here, *sys.path]
    found, name = [], ""
    for part in source.split("."):
        name = f"{name}.{part}" if name else part
        spec = getattr(sys.modules.get(name), "__spec__", None)
        spec = spec or importlib.machinery.PathFinder.find_spec(name, places)
        if spec is None and name == part:  # installed in a way of its own
            with contextlib.suppress(ImportError, ValueError):
                spec = importlib.util.find_spec(name)
        if spec is None:
            return []
        if spec.origin and spec.has_location:
            found.append(Path(spec.origin).resolve())
        places = list(spec.submodule_search_locations or ())
    return found


def is_known(entry: Entry) -> bool:
    """Return whether the user trained with a file, trusts it, or has imported it in this process."""
    if "url" in entry:
        return text_of(entry) in known_entries()
    return bool({entry["path"], text_of(entry)} & known_entries()) or entry["path"] in imported_files()


def imported_files() -> set[str]:
    """Return the files of a person's own that this process has imported, or was started from: no library's."""
    libraries = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    others = (*filter(None, libraries), str(Path(__file__).parents[1]))
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return {_real_path(f) for f in files if isinstance(f, str) and f.endswith(".py") and not f.startswith(others)}


@functools.cache
def _real_path(file: str) -> str:
    """Return a path without links, found once: each entry that is judged asks about all modules of the process."""
    return str(Path(file).resolve())


def text_of(entry: Entry) -> str:
    return entry["path"] if set(entry) == {"path"} else json.dumps(entry, sort_keys=True)


def store() -> Path:
    """Return the user's own file of trusted entries."""
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return Path(base) / "forage" / "trusted.jsonl"


def known_entries() -> set[str]:
    """Return the trusted entries: paths of the user's own files, and entries by path and hash, or by address."""
    found = set(known_here)
    try:
        lines = store().read_text(errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError, TypeError):
            found.add(text_of(json.loads(line)))
    return found


def remember_entries(where: str, entries: Iterable[Entry]) -> None:
    """Keep entries for all later processes, and say so."""
    for entry in entries:
        print(f"Trusted from now on: {where} {entry_words(entry)}.", file=sys.stderr)
        keep_entry(entry)


def keep_entry(entry: Entry) -> None:
    """Keep an entry for this process and, where the person's own file can be written, for all later ones."""
    if text_of(entry) in known_entries():
        return
    known_here.add(text_of(entry))
    path = store()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
