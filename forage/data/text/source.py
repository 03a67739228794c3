"""The rows of a file or a directory of recorded text, each with its place, before anything is asked of them.

| what | how it is read |
|---|---|
| `.jsonl`, `.ndjson` | a JSON object a line |
| `.json` | a list of JSON objects |
| `.csv`, `.tsv` | columns by their names in the first line; messages and tools as JSON |
| `.parquet`, `.arrow` | by pyarrow |
| a directory | the split of a Hugging Face data set: Parquet shards, or what `save_to_disk` wrote |
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from forage.core.errors import nearest
from forage.core.types import ForageError
from forage.data.formats import package

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".arrow")
SPLIT = re.compile(r"(?P<split>[A-Za-z0-9_.]+?)(-\d{5}-of-\d{5})?\.(jsonl|ndjson|json|csv|tsv|parquet|arrow)")
"""The name of a file of a split: `train.jsonl`, or a shard such as `train-00000-of-00002.parquet`."""
TRAIN = "train"


class RawRow(NamedTuple):
    """An unchecked row: its place, and its fields, or the reason why it has none, as the end of a sentence."""

    place: str  # as a message names it: line 12
    fields: Mapping[str, Any] | str


def raw_rows(path: Path) -> Iterator[RawRow]:
    """Yield the rows of a file, or of a directory's split. Raise `ForageError` if it cannot be read as one."""
    files = files_of(path)
    for file in files:
        suffix = file.suffix.lower()
        several = f"{file.name} " if len(files) > 1 else ""
        rows = (
            json_lines(file)
            if suffix in (".jsonl", ".ndjson")
            else json_list(file)
            if suffix == ".json"
            else csv_rows(file)
            if suffix in (".csv", ".tsv")
            else arrow_rows(file)
        )
        try:
            for row in rows:
                yield row._replace(place=several + row.place)
        except OSError as error:
            raise ForageError(f"{file} cannot be read: {error.strerror or error}.") from error
        except UnicodeDecodeError as error:
            raise ForageError(f"{file} is not text in UTF-8: {error}.") from None


def is_text_data(path: Path) -> bool:
    """Return whether a path has the name of a file, or the files of a directory, that only recorded text has."""
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json", ".arrow"):
        return True
    return path.is_dir() and bool(splits_of(path)) and not (path / "header.json").exists()


def files_of(path: Path) -> list[Path]:
    """Return the files of recorded text that a path names: itself, or those of a directory's split.

    `DIRECTORY` is its split `train`, or the only one; `DIRECTORY/test` names another.
    """
    if path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            raise ForageError(f"{path} is no file of texts; they are read from {', '.join(SUFFIXES)}, or a directory.")
        return [path]
    if not path.is_dir() and path.suffix:
        raise ForageError(f"There is no file {path}.")
    directory, split = (path, None) if path.is_dir() else (path.parent, path.name)
    found = splits_of(directory) if directory.is_dir() else {}
    if split is None and len(found) == 1:
        return next(iter(found.values()))
    wanted = split or TRAIN
    if wanted in found:
        return found[wanted]
    if path.is_dir() and not found:
        raise ForageError(
            f"{path} is a directory without texts; a data set of Hugging Face's has Parquet files or a state.json."
        )
    if split is None:
        raise ForageError(
            f"{path} has no split {TRAIN}; name one of {', '.join(found)}, as {path / next(iter(found))}."
        )
    if found:
        raise ForageError(f"{directory} has no split {split!r}{nearest(split, found)}")
    raise ForageError(f"There is no file {path}.")


def splits_of(directory: Path) -> dict[str, list[Path]]:
    """Return the files of each split of a directory, in their order; empty for a directory that is no data set."""
    if (directory / "state.json").is_file():
        return {TRAIN: saved_files(directory)}
    if (directory / "dataset_dict.json").is_file():
        names = read_object(directory / "dataset_dict.json").get("splits", [])
        return {name: saved_files(directory / name) for name in names}
    found: dict[str, list[Path]] = {}
    for base in (directory, directory / "data"):
        for file in sorted(base.iterdir()) if base.is_dir() else ():
            match = SPLIT.fullmatch(file.name)
            if file.is_file() and match and file.name not in ("dataset_info.json", "metadata.json", "config.json"):
                found.setdefault(match["split"], []).append(file)
    return found


def saved_files(directory: Path) -> list[Path]:
    """Return the files of a data set that `save_to_disk` wrote, as its state.json names them."""
    named = read_object(directory / "state.json").get("_data_files", [])
    return [directory / entry["filename"] for entry in named]


def read_object(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file of a data set. Raise `ForageError` if it is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ForageError(f"{path} cannot be read as JSON ({error}), so {path.parent} is no whole data set.") from None
    return found if isinstance(found, dict) else {}


def json_lines(path: Path) -> Iterator[RawRow]:
    with open(path, encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except ValueError as error:
                yield RawRow(f"line {number}", f"is no JSON ({str(error).split(':')[0].lower()})")
                continue
            yield RawRow(f"line {number}", found if isinstance(found, dict) else "is no JSON object")


def json_list(path: Path) -> Iterator[RawRow]:
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        raise ForageError(f"{path} is no JSON: {error}; with an object a line it is called .jsonl.") from None
    if not isinstance(found, list):
        raise ForageError(f"{path} is no JSON list of rows; with an object a line it is called .jsonl.")
    for number, row in enumerate(found):
        yield RawRow(f"row {number}", row if isinstance(row, dict) else "is no JSON object")


def csv_rows(path: Path) -> Iterator[RawRow]:
    """Yield the rows of a CSV, whose cells are texts; those that hold messages, tools or a dictionary are JSON."""
    csv.field_size_limit(1 << 30)
    with open(path, newline="", encoding="utf-8-sig") as file:
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            names = [name.strip() for name in next(lines, [])]
            for cells in lines:
                place = f"line {lines.line_num}"
                if not cells:
                    continue
                if len(cells) != len(names):
                    yield RawRow(place, f"has {len(cells)} cells for {len(names)} columns")
                    continue
                yield RawRow(place, {name: parse_cell(cell) for name, cell in zip(names, cells, strict=True)})
        except csv.Error as error:
            raise ForageError(f"{path} is not a CSV: line {lines.line_num}: {error}.") from None


def parse_cell(cell: str) -> Any:
    """Return a list of objects that a cell holds as JSON, or an object; else its text."""
    if cell[:1] in "[{" and cell[-1:] in "]}":
        try:
            found = json.loads(cell)
        except ValueError:
            return cell
        if isinstance(found, dict) or (isinstance(found, list) and found and isinstance(found[0], dict)):
            return found
    return cell


def arrow_rows(path: Path) -> Iterator[RawRow]:
    """Yield the rows of a Parquet file or of an Arrow file, without the fields that only other rows have."""
    arrow, row = package("pyarrow", f"{path.name}: tables"), 0
    try:
        if path.suffix.lower() == ".parquet":
            batches: Any = package("pyarrow.parquet", "Parquet files").ParquetFile(path).iter_batches(1024)
        else:
            batches = open_arrow(arrow, path)
        for batch in batches:
            for fields in batch.to_pylist():
                yield RawRow(f"row {row}", without_gaps(fields))
                row += 1
    except FileNotFoundError:
        raise ForageError(f"There is no file {path}, which its data set names.") from None
    except arrow.ArrowException as error:
        form = "Parquet" if path.suffix.lower() == ".parquet" else "Arrow"
        raise ForageError(f"{path} is not a whole {form} file ({error}).") from None


def open_arrow(arrow: Any, path: Path) -> Any:
    """Return the batches of an Arrow file, which is a stream, as `save_to_disk` writes it, or a file with an index."""
    with arrow.OSFile(str(path)) as file:
        indexed = file.read(6) == b"ARROW1"
    source = arrow.memory_map(str(path))
    if not indexed:
        return arrow.ipc.open_stream(source)
    reader = arrow.ipc.open_file(source)
    return (reader.get_batch(number) for number in range(reader.num_record_batches))


def without_gaps(value: Any) -> Any:
    """Return a value of Arrow without the entries of structs that are missing, which other rows have."""
    if isinstance(value, dict):
        return {name: without_gaps(one) for name, one in value.items() if one is not None}
    return [without_gaps(one) for one in value] if isinstance(value, list) else value
