"""Tables with a row for each transition: CSV files of the user, and Parquet.

With an environment, columns are its observations and actions, in order; without one, `data/tables/` reads them.
Options or a TOML file next to the table name the columns (`reading.py`). Parquet files written by Forage have columns
named as a data set's arrays, and the header in the file's metadata, so they need no description.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from forage.core.columns import NO, YES
from forage.core.errors import nearest
from forage.core.plain import dumps
from forage.core.storage import archives
from forage.core.types import ForageError, Spec
from forage.data import files
from forage.data.formats import flat, folder, package
from forage.data.formats.reading import Reading, description_path
from forage.data.logged import Transitions
from forage.data.tables.rows import IN_MEMORY, read_table
from forage.data.tables.source import Source, Texts, as_plain

EXAMPLE = 'observation = ["x", "speed"], action = "push", reward = "paid", terminated = "fell", truncated = "late"'


def read_columns(path: Path, reading: Reading, spec: Spec | None) -> tuple[Transitions, dict[str, Any]]:
    """Read a table without an environment, by the roles of its columns; with a spec, by the columns of that."""
    table = read_table(path, reading, known=None if spec is None else spec.columns)
    return table.transitions(), {"spec": flat.spec_json(table.spec), "left_out": table.omissions}


def convert_table(path: Path, target: Path, reading: Reading) -> dict[str, Any]:
    """Write a table as a folder of arrays, with no more than some rows in memory; return the folder's header."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=".tmp", dir=target.absolute().parent) as scratch:
        table = read_table(path, reading, Path(scratch) if numbers_size(path) > IN_MEMORY else None)
        header = {
            "spec": flat.spec_json(table.spec),
            "source": {"file": path.name, "format": "parquet" if path.suffix.lower() == ".parquet" else "csv"},
            "left_out": table.omissions,
        }
        total, whole = 0.0, 0
        carried = 0.0
        with folder.Writer(target, header) as writer:
            for arrays in table.chunks():
                ended = arrays["terminated"] | arrays["truncated"]
                writer.add_arrays(arrays, int(ended.sum()))
                # Returns of whole episodes, of which one may go on in the next chunk
                first = int(arrays["episode"][0])
                sums = np.bincount(arrays["episode"] - first, arrays["reward"])
                sums[0] += carried
                counted = np.zeros(len(sums), bool)
                counted[(arrays["episode"] - first)[ended & ~arrays["cut"]]] = True
                total, whole = total + float(sums[counted].sum()), whole + int(counted.sum())
                carried = 0.0 if ended[-1] else float(sums[-1])
            writer.header["mean_return"] = total / whole if whole else None
    return folder.read_header(target)


ROW = 50  # bytes of the numbers of a row, about as many as those of its text


def numbers_size(path: Path) -> int:
    """Return about how many bytes the numbers of a table have; Parquet may be far smaller than these."""
    if path.suffix.lower() == ".parquet":
        with contextlib.suppress(OSError, ValueError):  # reading says what is wrong with it
            return ROW * package("pyarrow.parquet", "Parquet files").read_metadata(path).num_rows
    return path.stat().st_size


def read_csv(path: Path, spec: Spec | None, reading: Reading) -> tuple[Transitions, dict[str, Any]]:
    """Read a CSV: as the observations and actions of an environment, in its order; without one by its columns."""
    if spec is None or spec.columns is not None:
        return read_columns(path, reading, spec)
    source = Source(path, as_plain(vars(reading)), reading.blanks)
    check_columns(path, reading, source.names)
    wanted = columns_of(reading)
    labels = {name for name in (*reading.episode, reading.time) if name}  # which may be words
    parts: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
    row = 0
    for batch in source.batches(wanted):
        for name, cells in batch.items():
            assert isinstance(cells, Texts)
            if name in labels:
                parts[name].append(np.array(cells.names, object)[cells.codes])
            else:
                parts[name].append(cell_numbers(source, name, cells, row))
        row += len(parts[wanted[0]][-1])
    columns = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return transitions(path, columns, reading, spec, source.place)


def transitions(
    path: Path, columns: Mapping[str, np.ndarray], reading: Reading, spec: Spec, label: files.Label
) -> tuple[Transitions, dict[str, Any]]:
    """Return the whole episodes of a table's columns, and the number of rows left out."""
    episode, time = [columns[name] for name in reading.episode], columns[reading.time] if reading.time else None
    rows, label = flat.arrange_rows(path, rows_of(columns, reading), spec, label, episode, time)
    data, dropped = flat.transitions(path, rows, reading, spec, label)
    return data, {"left_out": dropped}


def cell_numbers(source: Source, name: str, cells: Texts, row: int) -> Float[np.ndarray, " row"]:
    """Return the numbers of cells; true and yes are 1, false and no are 0."""
    found = []
    for code, text in enumerate(cells.names):
        number = source.number(text)
        if number is None and text.lower() in (*YES, *NO):
            number = float(text.lower() in YES)
        if number is None:
            place = source.place(row + int((cells.codes == code).argmax()))
            raise ForageError(f"{source.path}: {place} has {text!r} in column {name}, which is no number.")
        found.append(number)
    return np.array(found)[cells.codes]


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
    if spec is None or spec.columns is not None:
        return read_columns(path, reading, spec)
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
    archives.write_atomically(path, lambda file: parquet.write_table(table, file))
