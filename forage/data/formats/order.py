"""The order of a file's rows: those of an episode together, in the order of time.

Logs of several shops, robots or users are often sorted by date, so that their episodes take turns. Rows are grouped by
what names their episode and sorted by what tells their time; a row that ends its episode is the last of it, and what
comes later under the same name is another episode.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Shaped

from forage.core.types import ForageError
from forage.data.files import Label

ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?")
MISSING = ("", "nan", "none", "null", "na", "n/a", "<na>", "nat")


Continues = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Order(NamedTuple):
    """The order of the rows."""

    rows: Int[np.ndarray, " row"]  # numbers of the file's rows, in order
    ended: Bool[np.ndarray, " row"]  # of the ordered rows: the last of its episode


class RowLabels(NamedTuple):
    """The columns that identify the episode and the time of each row, and further facts about the rows."""

    episode: Sequence[Shaped[np.ndarray, " row"]]  # columns whose values together name an episode; none: all are of one
    time: Shaped[np.ndarray, " row"] | None
    last: Bool[np.ndarray, " row"]  # rows that the file marks as the end of an episode
    continues: Continues | None = None  # whether rows lead to what others observe, if the file has next observations
    horizon: int | None = None


def order_rows(path: Path, named: RowLabels, label: Label) -> Order:
    """Return the rows by episode and time. Raise `ForageError` if their order is ambiguous.

    Episodes come in the order of their first rows. Without a time the rows of an episode are in the order of the file.
    """
    count = len(named.last)
    codes = number_episodes(path, named.episode, label) if named.episode else np.zeros(count, np.int64)
    rows = np.argsort(codes, kind="stable")
    if named.time is None:
        new = returns(path, named, codes, rows, label)
    else:
        rows, new = by_time(path, named, codes, rows, moments(path, named.time, label), label)
    starts = np.append(True, codes[rows][1:] != codes[rows][:-1]) | new
    starts[1:] |= named.last[rows][:-1]
    # Episodes in the order of their first rows, also those that share a name.
    episode = np.cumsum(starts) - 1
    first = np.minimum.reduceat(rows, np.flatnonzero(starts))
    place = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    rows, starts = (array[np.argsort(place[episode], kind="stable")] for array in (rows, starts))
    return Order(rows, np.append(starts[1:], True))


def returns(path: Path, named: RowLabels, codes: np.ndarray, rows: np.ndarray, label: Label) -> np.ndarray:
    """Return the mask of rows at which a repeated name starts a new episode, in a file without times."""
    same = codes[rows][1:] == codes[rows][:-1]
    marked = named.last[rows][:-1]
    back = same & (np.diff(rows) != 1)  # other rows lie between
    open_ = back & ~marked  # and nothing says that the episode was over
    new = np.zeros(len(rows), bool)
    if not open_.any():
        return new
    if named.continues is not None:
        beside = same & ~back & ~marked
        if named.continues(rows[:-1][beside], rows[1:][beside]).all():
            new[1:] = open_
            new[1:][open_] = ~named.continues(rows[:-1][open_], rows[1:][open_])
            return new
    at = int(rows[1:][open_].min())
    where = int(np.flatnonzero(open_ & (rows[1:] == at))[0])
    called = episode_name(named, at)
    runs = np.diff(np.flatnonzero(np.append(np.append(True, codes[1:] != codes[:-1]), True)))
    told = f"{path}: {called} comes back in {label(at)} after others, and {label(int(rows[where]))} is no end of it"
    ask = (
        "name the column that orders its rows (--time COLUMN), or more columns that tell episodes apart (--episode A,B)"
    )
    if (back & marked).any() and np.median(runs) > 1:
        again = int(rows[1:][back & marked].min())
        raise ForageError(
            f"{told}; {episode_name(named, again)} begins anew in {label(again)} after its end, so the same name may "
            f"be "
            f"another episode: {ask}."
        )
    joined = np.diff(np.flatnonzero(np.concatenate([[True], ~same | marked, [True]])))
    if named.horizon and joined.max() > named.horizon >= runs.max():
        raise ForageError(
            f"{told}; together they have {joined.max():,} steps, and an episode has {named.horizon:,} at most: {ask}."
        )
    return new


def by_time(
    path: Path, named: RowLabels, codes: np.ndarray, rows: np.ndarray, time: np.ndarray, label: Label
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows sorted by episode and time, and the mask of rows at which a repeated name starts a new
    episode.
    """
    ordered = rows[np.lexsort((time[rows], codes[rows]))]
    same = codes[ordered][1:] == codes[ordered][:-1]
    twice = same & (time[ordered][1:] == time[ordered][:-1])
    new = np.zeros(len(rows), bool)
    edges = np.searchsorted(codes[rows], np.arange(codes.max() + 2))
    for code in np.unique(codes[ordered][1:][twice]):
        # A name whose time begins anew names several episodes, each in the order of the file.
        at = slice(edges[code], edges[code + 1])
        own = rows[at]
        now = time[own]
        after_end = named.last[own][:-1]
        begins = (now[1:] < now[:-1]) | ((now[1:] == now[:-1]) & after_end)
        restarts = now[1:] == now.min()
        if (begins & ~restarts & ~after_end).any() or (~begins & (now[1:] == now[:-1])).any():
            bad = int(edges[code] + np.flatnonzero(twice[edges[code] :])[0])
            one, other = sorted((int(ordered[bad]), int(ordered[bad + 1])))
            called = episode_name(named, one) if named.episode else "the recording"
            raise ForageError(
                f"{path}: {called} has two rows of one time, {label(one)} and {label(other)}, so nobody knows which "
                f"comes first; name a finer time, or more columns that tell episodes apart (--episode A,B)."
            )
        ordered[at] = own
        new[at] = np.append(False, begins)
    return ordered, new


def episode_name(named: RowLabels, row: int) -> str:
    """Return the name of a row's episode in messages."""
    return f"episode {', '.join(cell_text(column[row]) for column in named.episode)}"


def cell_text(value: Any) -> str:
    """Return a cell's text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def number_episodes(path: Path, columns: Sequence[np.ndarray], label: Label) -> Int[np.ndarray, " row"]:
    """Return the number of each row's episode, counted by first occurrence."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        check_named(path, "episode", column, label)
        values = np.array([cell_text(value).strip() for value in column]) if column.dtype.kind == "O" else column
        _, inverse = np.unique(values, return_inverse=True)
        _, codes = np.unique(codes * (int(inverse.max()) + 1) + inverse.reshape(-1), return_inverse=True)
    _, first = np.unique(codes, return_index=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[codes]


def check_named(path: Path, what: str, column: np.ndarray, label: Label) -> None:
    """Raise `ForageError` for the first row without a value, as it belongs to no episode."""
    if column.dtype.kind == "f":
        missing = np.isnan(column)
    elif column.dtype.kind in "mM":
        missing = np.isnat(column)
    elif column.dtype.kind in "OUS":
        missing = np.array([value is None or cell_text(value).strip().lower() in MISSING for value in column])
    else:
        return
    if missing.any():
        bad = int(missing.argmax())
        raise ForageError(f"{path}: {label(bad)} has no {what}, the first of {missing.sum():,} such.")


def moments(path: Path, column: np.ndarray, label: Label) -> np.ndarray:
    """Return times as numbers: of numbers, dates, and texts of either. Raise `ForageError` for anything else."""
    check_named(path, "time", column, label)
    if column.dtype.kind in "fiub":
        return column
    if column.dtype.kind in "mM":
        return column.astype(np.int64)
    texts = [cell_text(value).strip() for value in column]
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        pass
    found, zones = [], set()
    for row, text in enumerate(texts):
        match = ISO.fullmatch(text)
        if match is None:
            raise ForageError(
                f"{path}: {label(row)} has the time {text!r}, which is neither a number nor a date such as 2024-01-31 "
                f"or 2024-01-31T12:00:00."
            )
        *parts, fraction, zone = match.groups()
        zones.add(zone)
        found.append((*(int(part or 0) for part in parts), float(fraction or 0)))
    if len(zones) == 1:  # then texts of dates compare as they are, also those that no calendar has
        years = np.array(found)
        return years[:, :6] @ [32140800, 2678400, 86400, 3600, 60, 1] + years[:, 6]
    if None in zones:
        raise ForageError(f"{path} has times with a zone and without one; give all of them one, or none.")
    try:
        return np.array([datetime.datetime.fromisoformat(text.replace(" ", "T", 1)).timestamp() for text in texts])
    except ValueError as error:
        raise ForageError(f"{path} has a time that is no date ({error}).") from None
