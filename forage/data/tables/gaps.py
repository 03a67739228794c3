"""Missing cells, filled as described, and the statistics of columns."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Int

from forage.core.columns import Column, Columns
from forage.core.types import ForageError
from forage.data.formats.reading import CUT, LAST, TYPICAL, ColumnReading, Reading
from forage.data.tables.numbers import release_pages
from forage.data.tables.source import Source

Starts = Bool[np.ndarray, " row"]
"""The mask of ordered rows that begin an episode."""


def fill_and_fit(
    source: Source,
    reading: Reading,
    columns: Columns,
    after: tuple[Column, ...],
    numbers: dict[str, np.ndarray],
    order: Int[np.ndarray, " row"] | None,
    starts: Starts,
    fit: bool = True,
) -> tuple[Columns, tuple[Column, ...]]:
    """Fill missing cells as described, and return the columns with the statistics of the data.

    Cells of columns that are `cut` stay missing. Without `fit` the columns keep the statistics that they have, and
    their typical value is that of their own data.
    """
    fitted = {}
    for column in (*columns.observation, *columns.action):
        values = numbers[column.name]
        missing = is_missing(values)
        said = reading.columns.get(column.name, ColumnReading()).missing
        known = None if fit or column.typical is None else float(column.parse(column.typical))
        said = said or (TYPICAL if known is not None else "")
        if missing.any():
            if not said:
                bad = int(missing.argmax())
                raise ForageError(
                    f"{source.path}: {source.place(bad)} has no {column.name}, the first of {missing.sum():,} such; "
                    f"say what a missing cell means in {source.path.with_suffix('.toml').name}, as in [columns."
                    f'{column.name}] missing = "last" (or typical, cut, or a value); forage data describe '
                    f"{source.path} proposes it."
                )
            typical = typical_number(column, values, missing) if known is None else known
            if said == LAST:
                numbers[column.name] = last_values(values, missing, order, starts, typical)
            elif said != CUT:
                number = typical if said == TYPICAL else float(column.parse(said, f"{source.path}: missing of "))
                numbers[column.name] = np.where(missing, number, values).astype(values.dtype)
            if not fit:
                pass
            elif said in (LAST, TYPICAL):
                cell = column.cells(int(typical)) if column.numbered else typical
                column = dataclasses.replace(column, typical=cell)
            elif said != CUT:
                column = dataclasses.replace(column, typical=said if column.numbered else float(column.parse(said)))
        chosen = column.name in reading.action
        fitted[column.name] = fit_column(source, column, numbers[column.name], chosen) if fit else column
        release_pages([numbers[column.name]])
    made = dataclasses.replace(
        columns,
        observation=tuple(fitted[c.name] for c in columns.observation),
        action=tuple(fitted[c.name] for c in columns.action),
    )
    following = tuple(dataclasses.replace(one, name=c.name) for one, c in zip(made.observation, after, strict=False))
    for column in following:
        check_whole(source, column, numbers[column.name])
        release_pages([numbers[column.name]])
    for name in filter(None, (reading.reward, reading.behaviour_probability)):
        missing = is_missing(numbers[name])
        said = reading.columns.get(name, ColumnReading()).missing
        if missing.any() and said not in (CUT, ""):
            number = Column(name).parse(said, f"{source.path}: missing of ")
            numbers[name] = np.where(missing, number, numbers[name])
        elif missing.any() and not said:
            check_whole(source, Column(name), numbers[name])
    return made, following


def check_whole(source: Source, column: Column, values: np.ndarray) -> None:
    """Raise `ForageError` for a missing cell."""
    if (missing := is_missing(values)).any():
        raise ForageError(
            f"{source.path}: {source.place(int(missing.argmax()))} has no {column.name}, the first of "
            f'{missing.sum():,} such; say missing = "cut" or a value in [columns.{column.name}] of '
            f"{source.path.with_suffix('.toml').name}."
        )


def is_missing(values: np.ndarray) -> Bool[np.ndarray, " row"]:
    """Return the mask of missing cells."""
    return np.isnan(values) if values.dtype.kind == "f" else np.asarray(values) < 0


def typical_number(column: Column, values: np.ndarray, missing: np.ndarray) -> float:
    """Return the median of numbers, or the most frequent code; of a sample of a million rows."""
    step = max(1, len(values) // 1_000_000)
    present = np.asarray(values[::step])[~missing[::step]]
    if not len(present):
        raise ForageError(f"Column {column.name} has no cell.")
    return float(np.bincount(present).argmax()) if column.numbered else float(np.median(present))


def last_values(
    values: np.ndarray, missing: np.ndarray, order: Int[np.ndarray, " row"] | None, starts: Starts, typical: float
) -> np.ndarray:
    """Replace missing values by the last one of their episode, and at its start by the typical one."""
    carried = np.asarray(typical, values.dtype)
    for first in range(0, len(values), 1 << 20):
        part = slice(first, first + (1 << 20))
        rows = part if order is None else order[part]
        now, gap, begins = np.array(values[rows]), missing[rows], starts[part]
        place = np.arange(len(now))
        start = np.maximum.accumulate(np.where(begins, place, -1))  # -1: the episode began in an earlier part
        known = np.maximum.accumulate(np.where(gap, -1, place))
        found = np.where(known >= 0, now[np.maximum(known, 0)], carried)
        found[(known < start) & (start >= 0)] = typical
        values[rows] = found
        carried = found[-1]
    return values


def fit_column(source: Source, column: Column, values: np.ndarray, chosen: bool) -> Column:
    """Return a column with the mean, the deviation and the range of its numbers."""
    if column.numbered:
        return column
    totals, low, high = np.zeros(3), np.inf, -np.inf
    centre = None
    for first in range(0, len(values), 1 << 20):
        part = np.asarray(values[first : first + (1 << 20)], np.float64)
        part = part[~np.isnan(part)]
        if not len(part):
            continue
        centre = float(part[0]) if centre is None else centre  # sums of differences keep their digits
        totals += len(part), (part - centre).sum(), ((part - centre) ** 2).sum()
        low, high = min(low, float(part.min())), max(high, float(part.max()))
    if centre is None:
        raise ForageError(f"{source.path}: column {column.name} has no cell.")
    mean = totals[1] / totals[0]
    deviation = float(np.sqrt(max(totals[2] / totals[0] - mean**2, 0.0)))
    if chosen:
        for end, bound, found in (("low", column.low, low), ("high", column.high, high)):
            if bound is not None and (found < bound if end == "low" else found > bound):
                bad = int(np.asarray((values < bound) if end == "low" else (values > bound)).argmax())
                raise ForageError(
                    f"{source.path}: {source.place(bad)} has {values[bad]:g} in column {column.name}, "
                    f"{'below' if end == 'low' else 'above'} its {end}, {bound:g}."
                )
        low, high = column.low if column.low is not None else low, column.high if column.high is not None else high
    deviation = deviation if deviation > 1e-9 * max(1.0, abs(centre)) else 1.0
    return dataclasses.replace(column, mean=float(centre + mean), deviation=deviation, low=low, high=high)
