"""Formats of data sets: their names, recognition, readers and writers.

| name | what it is | read | written |
|---|---|---|---|
| `forage` | Forage's own NumPy archive, `.npz` (`forage/data/files.py`) | yes | yes |
| `folder` | a folder of uncompressed `.npy`, for data larger than memory | yes | yes |
| `minari` | a Minari folder | yes | yes |
| `d4rl` | HDF5 in the layout of D4RL, `.hdf5` or `.h5` | yes | yes |
| `ogbench` | a NumPy archive of OGBench, `.npz` | yes | yes |
| `parquet` | `.parquet`, Forage's own or with columns that somebody names | yes | yes |
| `csv` | `.csv` or `.tsv` with columns that somebody names | yes | no |

Modules are imported when their format is used, and packages of others in them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forage.core.errors import nearest
from forage.core.storage import archives
from forage.core.types import ForageError, Spec
from forage.data import files
from forage.data.formats.reading import Reading, description_path, read_description, reading_from_json
from forage.data.logged import Transitions

WRITTEN = ("forage", "folder", "minari", "d4rl", "ogbench", "parquet")
SUFFIXES = {".npz": "forage", ".hdf5": "d4rl", ".h5": "d4rl", ".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}
FOLDERS = ("folder", "minari")


def package(name: str, what: str, distribution: str | None = None) -> Any:
    """Import a third-party package. Raise `ForageError` with the command that installs it if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = "parquet" if name.startswith("pyarrow") else "data"
        top = distribution or name.partition(".")[0]
        raise ForageError(f"{what} need the package {top}: pip install 'forage-rl[{extra}]' ({error}).") from None


def kind_of(path: Path) -> str:
    """Return the name of a data set's format. Raise `ForageError` if it is none, or the path is missing."""
    if path.is_dir():
        if (path / "header.json").is_file():
            return "folder"
        if any((at / "metadata.json").is_file() for at in (path, path / "data")):
            return "minari"
        raise ForageError(
            f"{path} is a folder and no data set: neither Minari's metadata.json nor header.json is there."
        )
    if not path.exists():
        raise ForageError(files.missing(path))
    kind = SUFFIXES.get(path.suffix.lower(), "forage")
    if kind == "forage":
        # What cannot be opened `files.read_data` refuses, and says why.
        with contextlib.suppress(Exception), archives.open_archive(path) as archive:
            if "header" not in archive.files and "terminals" in archive.files:
                return "ogbench"
    return kind


def is_foreign_table(path: Path) -> bool:
    """Return whether a file is a foreign table, whose columns a description names."""
    kind = kind_of(path)
    if kind != "parquet":
        return kind == "csv"
    try:
        metadata = package("pyarrow.parquet", "Parquet files").read_schema(path).metadata
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise ForageError(f"{path} is not a whole Parquet file ({error}).") from None
    return b"forage" not in (metadata or {})


def complete_description(path: Path, said: Reading) -> Reading:
    """Return a description of a file that is completed by the TOML file next to it."""
    return said if kind_of(path) in ("forage", "folder") else said.fill_unset(read_description(path))


def description_for(path: Path, memory: Any) -> Reading | None:
    """Return the description with which a run's policy reads a file: that of the TOML file next to it, else the run's.

    `memory`: the memory of the run as plain data.
    """
    own = memory.get("reading") if isinstance(memory, dict) else None
    if not own or kind_of(path) in ("forage", "folder") or (beside := read_description(path)) == Reading():
        return reading_from_json(own or "", "the run's data")
    return beside


def read_data(
    path: Path, spec: Spec | None = None, reading: Reading | None = None
) -> tuple[Transitions, dict[str, Any]]:
    """Read a data set of any format, and its header.

    `spec`: the environment that it is of, for formats that do not say. `reading`: its description, by default that of
    the TOML file beside it. Raise `ForageError`, with the first bad row, where it is not one to learn from.
    """
    kind = kind_of(path)
    if kind == "forage":
        return files.read_data(path)
    if kind == "folder":
        from forage.data.formats import folder

        return folder.read_folder(path)
    words = read_description(path) if reading is None else reading
    if spec is not None:
        files.check_recordable(spec)
    elif kind in ("d4rl", "ogbench"):
        raise ForageError(f"{path} does not say what its numbers are of; name the environment with --env.")
    module, name = ("table", f"read_{kind}") if kind in ("csv", "parquet") else (kind, "read_data")
    found, header = getattr(importlib.import_module(f"forage.data.formats.{module}"), name)(path, spec, words)
    if "left_out" in header and "source" not in header:  # of others
        header = about(found, header.get("spec") or spec, path, kind) | {"left_out": header["left_out"]}
    return found, header


def about(data: Transitions, spec: Spec | Mapping[str, Any] | None, path: Path, kind: str) -> dict[str, Any]:
    """Return the header of a data set of others."""
    from forage.data.formats import flat

    assert spec is not None
    plain = flat.spec_json(spec) if isinstance(spec, Spec) else dict(spec)
    return {
        "spec": plain,
        **({} if "columns" in plain else {"environment": {"id": plain["name"]}}),
        "source": {"file": path.name, "format": kind},
        "transitions": data.transitions,
        "episodes": data.episodes,
        "mean_return": data.mean_return(plain.get("horizon")),
    }


def target_kind(path: Path, named: str | None = None) -> str:
    """Return the format for writing a data set: the one named, or that of its suffix."""
    kind = named or ("folder" if not path.suffix else SUFFIXES.get(path.suffix.lower(), ""))
    if kind not in WRITTEN:
        what = named or path.suffix
        raise ForageError(f"No data set is written as {what!r}; --to is {', '.join(WRITTEN)}{nearest(what, WRITTEN)}")
    archive = "forage" if kind == "ogbench" else kind  # both are .npz
    known = SUFFIXES.get(path.suffix.lower(), archive)
    if known != archive:
        fitting = " or ".join(suffix for suffix, what in SUFFIXES.items() if what == archive) or "no suffix"
        raise ForageError(
            f"{path.name} has the suffix of {known} and is to be written as {kind}, which has {fitting}; name another "
            f"output, or leave out --to."
        )
    if kind in FOLDERS and path.exists():
        raise ForageError(f"{path} exists already; remove it, or name another folder.")
    return kind


def write_data(path: Path, data: Transitions, header: Mapping[str, Any], kind: str) -> None:
    """Write a data set in a format that is `WRITTEN`: whole or not at all."""
    if kind == "forage":
        files.write_data(path, data, header)
    elif kind == "folder":
        from forage.data.formats import folder

        with folder.Writer(path, header) as writer:
            writer.add(data)
    else:
        module, name = ("table", "write_parquet") if kind == "parquet" else (kind, "write_data")
        getattr(importlib.import_module(f"forage.data.formats.{module}"), name)(path, data, header)


def data_hash(path: Path, described: bool = True) -> str:
    """Return the SHA-256 of a data set: of its file, or of all files of its folder, and of the TOML file next to it.

    A folder of arrays is identified by its header, which has the hash of each array: no large file is read. Without
    `described` the TOML file does not count.
    """
    words = description_path(path)
    described = described and words != path and words.is_file()
    if not path.is_dir():
        if path.exists() and described and kind_of(path) != "forage":
            return hash_lines([files.file_hash(path), files.file_hash(words)])
        return files.file_hash(path)
    if kind_of(path) == "folder":
        return files.file_hash(path / "header.json")
    inside = sorted(at for at in path.rglob("*") if at.is_file())
    hashes = [line for at in inside for line in (at.relative_to(path).as_posix(), files.file_hash(at))]
    return hash_lines(hashes + ([files.file_hash(words)] if described else []))


def hash_lines(lines: Sequence[str]) -> str:
    """Return the SHA-256 of lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
