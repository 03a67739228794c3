"""Cells as numbers: codes of names, days of dates, flags and times, each checked with its line."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from forage.core.columns import MOST, NO, YES, Column, read_date
from forage.core.types import ForageError
from forage.data.formats.reading import Reading
from forage.data.tables.source import Cells, Source, Texts, merge_names


class Growing:
    """Columns that grow batch by batch, in memory or in files of a folder."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.parts: dict[str, list[np.ndarray]] = {}
        self.files: dict[str, Any] = {}
        self.types: dict[str, np.dtype[Any]] = {}

    def add(self, name: str, array: np.ndarray) -> None:
        """Append to the column of a name."""
        self.types.setdefault(name, array.dtype)
        if self.folder is None:
            self.parts.setdefault(name, []).append(array)
            return
        if name not in self.files:
            self.files[name] = open(self.folder / f"{len(self.files)}.raw", "wb")  # noqa: SIM115  # closed in `finish`
        self.files[name].write(np.ascontiguousarray(array).data)

    def finish(self) -> dict[str, np.ndarray]:
        """Return the columns, as memory maps if they are in files."""
        if self.folder is None:
            return {name: np.concatenate(arrays) for name, arrays in self.parts.items()}
        found: dict[str, np.ndarray] = {}
        for name, file in self.files.items():
            file.close()
            found[name] = np.memmap(file.name, self.types[name], "r+")
        return found


def release_pages(arrays: Iterable[np.ndarray]) -> None:
    """Give memory back that holds pages of arrays in files; their content stays in the files."""
    for array in arrays:
        mapped = getattr(array, "_mmap", None)
        if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


def read_numbers(source: Source, reading: Reading, columns: Sequence[Column], growing: Growing) -> None:
    """Read all named columns as numbers: NaN and -1 stand for missing cells."""
    by_name = {column.name: column for column in columns}
    floats = [c.name for c in columns if c.kind == "number"]
    floats += [name for name in (reading.reward, reading.behaviour_probability) if name and name not in by_name]
    flags = [name for name in (reading.terminated, reading.truncated) if name]
    wanted = list(dict.fromkeys([*by_name, *floats, *flags, *reading.episode, *filter(None, [reading.time])]))
    known: dict[Any, int] = {}
    caches: dict[str, dict[str, float]] = {}
    row = 0
    for batch in source.batches(wanted, floats):
        for name in wanted:
            cells = batch[name]
            if name in by_name:
                growing.add(name, column_numbers(source, by_name[name], cells, caches.setdefault(name, {}), row))
            elif name in floats:
                growing.add(name, finite_numbers(source, name, cells, row))
            if name in flags:
                growing.add(f"flag {name}", flag_cells(source, name, cells, row))
        if reading.time:
            growing.add("time", time_numbers(source, reading.time, batch[reading.time], row))
        if reading.episode:
            check_episode_names(source, batch, reading.episode, row)
            growing.add("episode", episode_codes(batch, reading.episode, known))
        row += len(first.codes) if isinstance(first := batch[wanted[0]], Texts) else len(first)


def finite_numbers(source: Source, name: str, cells: Cells, row: int) -> Float[np.ndarray, " row"]:
    """Return a batch of numbers. Raise `ForageError` for a number beyond single precision."""
    assert not isinstance(cells, Texts)
    if (wrong := np.abs(cells) > MOST).any():
        bad = int(wrong.argmax())
        value = "an infinite" if np.isinf(cells[bad]) else f"{cells[bad]:g}, beyond single precision, as"
        raise ForageError(f"{source.path}: {source.place(row + bad)} has {value} {name}.")
    return cells


def column_numbers(
    source: Source, column: Column, cells: Cells, cache: dict[str, float], row: int
) -> Shaped[np.ndarray, " row"]:
    """Return the numbers of a batch of cells: codes of names, and NaN or -1 where one is missing."""
    if column.kind == "number":
        return finite_numbers(source, column.name, cells, row)
    if not isinstance(cells, Texts):
        if column.kind == "date":
            return cells
        present, codes = np.unique(cells, return_inverse=True)
        names = ["" if np.isnan(value) else f"{value:g}" for value in present.tolist()]
        cells = Texts(names, codes.reshape(-1).astype(np.int32))
    for code, text in enumerate(cells.names):
        if text in cache:
            continue
        if source.is_blank(text) and text not in column.names:
            cache[text] = np.nan
            continue
        try:
            cache[text] = float(column.parse(text))
        except ForageError:
            if not (cells.codes == code).any():
                cache[text] = np.nan
                continue
            place = source.place(row + int((cells.codes == code).argmax()))
            hint = f"; add it to names in [columns.{column.name}]" if column.kind == "category" else ""
            raise ForageError(
                f"{source.path}: {place} has {text!r} in column {column.name}, which is not {column.words}{hint}."
            ) from None
    found = np.array([cache[name] for name in cells.names] + [np.nan])
    if column.kind == "date":
        return found[cells.codes]
    return np.where(np.isnan(found), -1, found).astype(np.int16)[cells.codes]


def flag_cells(source: Source, name: str, cells: Cells, row: int) -> Bool[np.ndarray, " row"]:
    """Return a batch of yes or no; a missing cell is no."""
    if isinstance(cells, Texts):
        found = []
        for code, text in enumerate(cells.names):
            low = text.lower()
            number = source.number(text)
            if low in YES or number == 1:
                found.append(True)
            elif low in NO or source.is_blank(text) or number == 0 or not (cells.codes == code).any():
                found.append(False)
            else:
                place = source.place(row + int((cells.codes == code).argmax()))
                raise ForageError(f"{source.path}: {place} has {text!r} in column {name}, which is neither yes nor no.")
        return np.array([*found, False])[cells.codes]
    values = np.nan_to_num(cells)
    if (wrong := (values != 0) & (values != 1)).any():
        place = source.place(row + int(wrong.argmax()))
        raise ForageError(
            f"{source.path}: {place} has {values[wrong][0]:g} in column {name}, which is neither 0 nor 1."
        )
    return values == 1


def time_numbers(source: Source, name: str, cells: Cells, row: int) -> Float[np.ndarray, " row"]:
    """Return a batch of times as numbers. Raise `ForageError` for a cell that is no time."""
    if isinstance(cells, Texts):
        found = []
        for code, text in enumerate(cells.names):
            number = source.number(text)
            number = read_date(text) if number is None else number
            if number is None and (cells.codes == code).any():
                place = source.place(row + int((cells.codes == code).argmax()))
                raise ForageError(
                    f"{source.path}: {place} has the time {text!r}, which is neither a number nor a date such as "
                    f"2024-01-31 or 2024-01-31T12:00:00."
                )
            found.append(np.nan if number is None else number)
        cells = np.array([*found, np.nan])[cells.codes]
    if (wrong := ~np.isfinite(cells)).any():
        raise ForageError(f"{source.path}: {source.place(row + int(wrong.argmax()))} has no time ({name}).")
    return cells


def read_times(source: Source, name: str) -> Float[np.ndarray, " row"]:
    """Return the times of all rows."""
    parts, row = [], 0
    for batch in source.batches([name]):
        parts.append(time_numbers(source, name, batch[name], row))
        row += len(parts[-1])
    return np.concatenate(parts)


def check_episode_names(source: Source, batch: Mapping[str, Cells], names: Sequence[str], row: int) -> None:
    """Raise `ForageError` for the first row without the name of an episode."""
    for name in names:
        cells = batch[name]
        if isinstance(cells, Texts):
            missing = np.array([source.is_blank(text) for text in cells.names] + [True])[cells.codes]
        else:
            missing = np.isnan(cells)
        if missing.any():
            raise ForageError(f"{source.path}: {source.place(row + int(missing.argmax()))} has no episode ({name}).")


def read_episodes(source: Source, names: Sequence[str]) -> Int[np.ndarray, " row"] | None:
    """Return the number of each row's episode by its names, `None` if no column names it."""
    if not names:
        return None
    known: dict[Any, int] = {}
    return np.concatenate([episode_codes(batch, names, known) for batch in source.batches(list(names))])


def episode_codes(batch: dict[str, Cells], names: Sequence[str], known: dict[Any, int]) -> Int[np.ndarray, " row"]:
    """Return the episode of each row of a batch. `known`: the numbers of earlier names, which grows."""
    if len(names) == 1 and isinstance(cells := batch[names[0]], Texts):
        return merge_names(known, cells)
    columns = []
    for name in names:
        cells = batch[name]
        columns.append(np.array([*cells.names, None], object)[cells.codes] if isinstance(cells, Texts) else cells)
    keys = zip(*(column.tolist() for column in columns), strict=True)
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int32)
