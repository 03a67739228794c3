"""Tables with a row for each transition: CSV files of the user, and Parquet.

Options or a TOML file next to the table name the columns (`reading.py`). Parquet files written by Forage have columns
named as a data set's arrays, and the header in the file's metadata, so they need no description.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forage.core import checkpoint
from forage.core.errors import nearest
from forage.core.plain import dumps
from forage.core.types import ForageError, Spec
from forage.data import files
from forage.data.formats import flat, package
from forage.data.formats.reading import Reading, description_path
from forage.data.logged import Transitions

WORDS = {"true": 1.0, "false": 0.0}
EXAMPLE = 'observation = ["x", "speed"], action = "push", reward = "paid", terminated = "fell", truncated = "late"'


def read_csv(path: Path, spec: Spec, reading: Reading) -> tuple[Transitions, dict[str, Any]]:
    """Read a CSV with the names of its columns in the first line."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            names = [name.strip() for name in next(lines, [])]
            if not names:
                raise ForageError(f"{path} is empty: a CSV begins with the names of its columns.")
            check_columns(path, reading, names)
            wanted = [names.index(name) for name in columns_of(reading)]
            at: list[int] = []
            values: list[list[float | str]] = []
            labels = {names.index(name) for name in (*reading.episode, reading.time) if name}  # which may be words
            for cells in lines:
                if not cells:
                    continue
                if len(cells) != len(names):
                    raise ForageError(
                        f"{path}: line {lines.line_num} has {len(cells)} cells, and the first line names {len(names)}."
                    )
                line = lines.line_num
                values.append(
                    [cells[i].strip() if i in labels else cell_number(path, line, names[i], cells[i]) for i in wanted]
                )
                at.append(lines.line_num)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ForageError(f"{path} is not a CSV: {error}.") from None
    except OSError as error:
        raise ForageError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not values:
        raise ForageError(f"{path} is empty: it has names of columns and no rows.")
    columns = {name: np.array([cells[i] for cells in values]) for i, name in enumerate(columns_of(reading))}
    return transitions(path, columns, reading, spec, lambda row: f"line {at[row]}")


def transitions(
    path: Path, columns: Mapping[str, np.ndarray], reading: Reading, spec: Spec, label: files.Label
) -> tuple[Transitions, dict[str, Any]]:
    """Return the whole episodes of a table's columns, and the number of rows left out."""
    episode, time = [columns[name] for name in reading.episode], columns[reading.time] if reading.time else None
    rows, label = flat.arrange_rows(path, rows_of(columns, reading), spec, label, episode, time)
    data, dropped = flat.transitions(path, rows, reading, spec, label)
    return data, {"left_out": dropped}


def cell_number(path: Path, line: int, name: str, cell: str) -> float:
    """Return a cell's number; true and false are 1 and 0."""
    text = cell.strip()
    try:
        return WORDS[text.lower()] if text.lower() in WORDS else float(text)
    except ValueError:
        raise ForageError(f"{path}: line {line} has {cell!r} in column {name}, which is no number.") from None


def columns_of(reading: Reading) -> list[str]:
    """Return the described columns, in order and without repetition."""
    single = (reading.reward, reading.terminated, reading.truncated, reading.time, reading.behaviour_probability)
    several = (*reading.observation, *reading.next_observation, *reading.action, *reading.episode)
    return list(dict.fromkeys(name for name in (*several, *single) if name))


def check_columns(path: Path, reading: Reading, names: list[str]) -> None:
    """Raise `ForageError` if columns are not named, or not there."""
    for needed in ("observation", "action", "reward"):
        if not getattr(reading, needed):
            raise ForageError(
                f"Nothing says which columns of {path} are the {needed}; say it in {description_path(path).name} "
                f"beside it, as in {EXAMPLE}, or with --{needed}. Its columns are {', '.join(names)}."
            )
    for name in columns_of(reading):
        if name not in names:
            raise ForageError(f"{path} has no column {name!r}{nearest(name, names)}")
    if len(set(names)) != len(names):
        raise ForageError(f"{path} has two columns of one name; its columns are {', '.join(names)}.")


def rows_of(columns: Mapping[str, np.ndarray], reading: Reading) -> flat.FlatRows:
    """Return the rows of a table's columns."""

    def join_columns(names: tuple[str, ...]) -> np.ndarray:
        if len(names) == 1:
            return columns[names[0]]
        return np.concatenate([columns[name].reshape(len(columns[name]), -1) for name in names], 1)

    def one(name: str) -> np.ndarray | None:
        return columns[name] if name else None

    lists = any(columns[name].ndim > 1 for name in (*reading.observation, *reading.next_observation, *reading.action))
    return flat.FlatRows(
        join_columns(reading.observation),
        join_columns(reading.action),
        columns[reading.reward],
        one(reading.terminated),
        one(reading.truncated),
        None,
        join_columns(reading.next_observation) if reading.next_observation else None,
        one(reading.behaviour_probability),
        counted=not lists,
    )


def read_parquet(path: Path, spec: Spec | None, reading: Reading) -> tuple[Transitions, dict[str, Any]]:
    """Read Parquet: Forage's own with its header, another's with the words about its columns."""
    parquet = package("pyarrow.parquet", "Parquet files")
    try:
        table = parquet.read_table(path)
        names = table.column_names
        header = json.loads((table.schema.metadata or {}).get(b"forage", b"{}"))
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise ForageError(f"{path} is not a whole Parquet file ({error}).") from None
    if table.num_rows == 0:
        raise ForageError(f"{path} is empty: it has no rows.")
    if header:
        shapes = header.pop("shapes", {})
        if strange := sorted(shapes.keys() ^ set(names)):
            what = "has lost its column" if strange[0] in shapes else "was given the column"
            raise ForageError(
                f"{path} {what} {strange[0]} since Forage wrote it; use the file that forage data convert wrote."
            )
        try:
            arrays = {name: array_of(path, table, name).reshape(table.num_rows, *shapes[name]) for name in shapes}
        except ValueError as error:
            raise ForageError(f"{path} is not as Forage wrote it ({error}).") from None
        return files.transitions_of(path, arrays, header), header
    if spec is None:
        raise ForageError(f"{path} does not say what its numbers are of; name the environment with --env.")
    check_columns(path, reading, names)
    columns = {name: array_of(path, table, name) for name in columns_of(reading)}
    return transitions(path, columns, reading, spec, files.row_name)


def array_of(path: Path, table: Any, name: str) -> np.ndarray:
    """Return a column as an array; lists of one length are its further axis."""
    column = table.column(name).combine_chunks()
    if column.null_count:
        bad = int(np.asarray(column.is_null()).argmax())
        raise ForageError(f"{path}: row {bad} has nothing in column {name}.")
    shape: list[int] = []
    while hasattr(column.type, "value_field"):  # lists of lists are further axes
        lengths = package("pyarrow.compute", "Parquet files").list_value_length(column)
        width = np.unique(lengths.to_numpy(zero_copy_only=False))
        if len(width) > 1:
            raise ForageError(f"{path}: column {name} has lists of different lengths.")
        shape += width.tolist()
        column = column.flatten()
    values = column.to_numpy(zero_copy_only=False)
    return values.reshape(table.num_rows, *shape) if shape else values


def write_parquet(path: Path, data: Transitions, header: Mapping[str, Any]) -> None:
    """Write Parquet with the header in its metadata; arrays of several axes are lists of one length."""
    arrow, parquet = package("pyarrow", "Parquet files"), package("pyarrow.parquet", "Parquet files")
    columns, shapes = {}, {}
    for name, array in files.arrays_of(data).items():
        shapes[name] = list(array.shape[1:])
        flat_array = np.ascontiguousarray(array).reshape(-1)
        width = int(np.prod(array.shape[1:]))
        inner = arrow.array(flat_array)
        columns[name] = inner if array.ndim == 1 else arrow.FixedSizeListArray.from_arrays(inner, width)
    table = arrow.table(columns).replace_schema_metadata({"forage": dumps({**header, "shapes": shapes})})
    checkpoint.write_atomically(path, lambda file: parquet.write_table(table, file))
