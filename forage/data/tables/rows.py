"""The rows of a table as numbers, in the order of episodes and time, and the transitions that they make.

A transition leads from a row to the next row of its episode, or to the columns of the next observation; a row that
terminates leads to itself. Rows without either are left out, and so are rows with a missing cell whose column is `cut`:
the episode then ends before them, and what follows is another one, which has no start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from forage.core.columns import Column, Columns
from forage.core.types import ForageError, Spec
from forage.data.formats.flat import MOST_LOST
from forage.data.formats.order import RowLabels, order_rows
from forage.data.formats.reading import TERMINATED, TRUNCATED, ColumnReading, Reading
from forage.data.logged import Transitions
from forage.data.tables.gaps import Starts, fill_and_fit, is_missing
from forage.data.tables.numbers import Growing, read_numbers, release_pages
from forage.data.tables.profile import MOST_NAMES, MOST_WHOLE, profile_columns
from forage.data.tables.source import Source, as_plain

CHUNK = 1 << 16  # rows that are made transitions at a time


IN_MEMORY = 64 << 20  # bytes of a file up to which its numbers are kept in memory


MOST_SORTED = 20_000_000  # rows that are brought into order in memory


@dataclasses.dataclass(frozen=True)
class TransitionTable:
    """A table's rows as numbers, column by column, and the transitions among them."""

    path: Path
    columns: Columns
    after: tuple[Column, ...]  # columns of the next observation; none: that of the next row
    numbers: Mapping[str, Shaped[np.ndarray, " row"]]  # of each column, in the order of the file
    order: Int[np.ndarray, " row"] | None  # rows by episode and time; `None`: as in the file
    keep: Bool[np.ndarray, " row"]  # of the ordered rows: those that are transitions
    terminated: Bool[np.ndarray, " row"]  # of the ordered rows
    last: Bool[np.ndarray, " row"]  # of the ordered rows: the last transition of its episode
    cut: Bool[np.ndarray, " row"]  # of those: the episode was not recorded as a whole
    start: Bool[np.ndarray, " row"] | None = None  # first transitions that are first rows; `None`: all of them are
    probability: str = ""  # name of the column with the probability of the action

    @property
    def spec(self) -> Spec:
        """Return the spec of the table: the spaces of its columns, and its name."""
        space = self.columns.observation_space
        return Spec(self.path.stem, space, self.columns.action_space, columns=self.columns)

    @property
    def omissions(self) -> int:
        return len(self.keep) - int(self.keep.sum())

    def _column(self, name: str, first: int, end: int) -> np.ndarray:
        """Return the numbers of a column for the ordered rows from `first` to `end`."""
        if self.order is None:
            return np.asarray(self.numbers[name][first:end])
        return self.numbers[name][self.order[first:end]]

    def _encode(self, columns: Sequence[Column], first: int, end: int) -> Float[np.ndarray, "row entry"]:
        found = np.empty((end - first, sum(column.width for column in columns)), np.float32)
        at = 0
        for column in columns:
            found[:, at : at + column.width] = column.encode(self._column(column.name, first, end))
            at += column.width
        return found

    def chunks(self, size: int = CHUNK) -> Iterator[dict[str, np.ndarray]]:
        """Return the arrays of the transitions, as files of data sets name them, `size` rows at a time."""
        count, episode = len(self.keep), 0
        for first in range(0, count, size):
            end = min(first + size, count)
            keep = self.keep[first:end]
            if not keep.any():
                continue
            terminated, last = self.terminated[first:end], self.last[first:end]
            observation = self._encode(self.columns.observation, first, min(end + 1, count))
            if self.after:
                following = self._encode(self.after, first, end)
            else:
                following = observation[1 : end - first + 1]
                if len(following) < end - first:
                    following = np.concatenate([following, observation[-1:]])
            observation = observation[: end - first]
            if not self.after and terminated.any():
                following = np.where(terminated[:, None], observation, following)
            actions = [self._column(column.name, first, end)[keep] for column in self.columns.action]
            ends = last[keep]
            number = episode + np.append(0, np.cumsum(ends)[:-1])
            arrays = {
                "observation": observation[keep],
                "action": self.columns.pack_action(actions),
                "reward": self._column(self.columns.reward, first, end)[keep].astype(np.float64),
                "next_observation": following[keep],
                "terminated": terminated[keep],
                "truncated": (last & ~terminated)[keep],
                "episode": number.astype(np.int64),
                "cut": (self.cut[first:end] & last)[keep],
            }
            if self.start is not None:
                arrays["start"] = self.start[first:end][keep]
            if self.probability:
                arrays["behaviour_probability"] = self._column(self.probability, first, end)[keep].astype(np.float64)
            episode = int(number[-1]) + int(ends[-1])
            release_pages(self.numbers.values())
            yield arrays

    def transitions(self) -> Transitions:
        """Return all transitions in memory."""
        parts = list(self.chunks())
        if not parts:
            raise ForageError(
                f"{self.path} holds only episodes of one row, from which no next observation can be told."
            )
        arrays: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        try:
            return Transitions(**arrays)
        except ForageError as error:
            raise ForageError(f"{self.path} is not a data set to learn from: {error}") from error


def read_table(
    path: Path, reading: Reading, folder: Path | None = None, known: Columns | None = None
) -> TransitionTable:
    """Read a table by its description. Raise `ForageError` for the first cell that does not fit it.

    `folder`: where the numbers of a large table are kept meanwhile. `known`: the columns of an earlier table, whose
    names, codes and statistics this one is read with.
    """
    source = Source(path, as_plain(dataclasses.asdict(reading)), reading.blanks)
    reading = reading if known is None else with_columns_of(reading, known)
    check_named(source, reading)
    columns, after = describe_columns(source, reading) if known is None else (known, following_columns(known, reading))
    growing = Growing(folder)
    read_numbers(source, reading, (*columns.observation, *columns.action, *after), growing)
    numbers = growing.finish()
    order, starts, marked = order_of(source, reading, numbers)
    release_pages(numbers.values())
    columns, after = fill_and_fit(source, reading, columns, after, numbers, order, starts, fit=known is None)
    release_pages(numbers.values())
    return link_rows(path, reading, columns, after, numbers, order, starts, marked)


def check_named(source: Source, reading: Reading) -> None:
    """Raise `ForageError` if the description lacks a role or names a column that is not there."""
    for needed in ("observation", "action", "reward"):
        if not getattr(reading, needed):
            raise ForageError(
                f"Nothing says which columns of {source.path} are the {needed}; forage data describe {source.path} "
                f"writes a proposal to {source.path.with_suffix('.toml').name}, or say --{needed}. Its columns are "
                f"{', '.join(source.names)}."
            )
    single = (reading.reward, reading.terminated, reading.truncated, reading.time, reading.behaviour_probability)
    several = (*reading.observation, *reading.next_observation, *reading.action, *reading.episode)
    source.check_names([name for name in (*several, *single, *reading.columns) if name])
    if reading.next_observation and len(reading.next_observation) != len(reading.observation):
        raise ForageError(
            f"{source.path} has {len(reading.observation)} columns of the observation and "
            f"{len(reading.next_observation)} of the next one; name as many, in the same order."
        )


def describe_columns(source: Source, reading: Reading) -> tuple[Columns, tuple[Column, ...]]:
    """Return the columns of a description; missing kinds and names are those of the cells."""
    wanted = [*reading.observation, *reading.action]
    words = {name: reading.columns.get(name, ColumnReading()) for name in wanted}
    open_ = [n for n, said in words.items() if not said.kind or (said.kind == "category" and not said.names)]
    profiles = profile_columns(source, open_) if open_ else {}
    made = {}
    for name in wanted:
        said = words[name]
        kind, names = said.kind, said.names
        if name in profiles:
            found = profiles[name]
            own = found.kind
            if name in reading.action and own == "number" and found.whole and len(found.texts) <= MOST_WHOLE:
                own = "number" if found.many else "category"
            kind = kind or own
            if kind not in ("number", "category", "boolean", "date"):
                what = "empty" if kind == "empty" else f"{found.range_words()} texts"
                raise ForageError(
                    f"{source.path}: column {name} is {what}, which is neither a number nor one of up to "
                    f"{MOST_NAMES} names; leave it out."
                )
            names = names or (found.names if kind in ("category", "boolean") else ())
        if kind == "boolean" and not names:
            names = ("no", "yes")
        made[name] = Column(name, kind, names, low=said.low, high=said.high)  # type: ignore[arg-type]
    columns = Columns(
        tuple(made[name] for name in reading.observation),
        tuple(made[name] for name in reading.action),
        reading.joint,
        reading.reward,
    )
    return columns, following_columns(columns, reading)


def following_columns(columns: Columns, reading: Reading) -> tuple[Column, ...]:
    """Return the columns of the next observation, coded as those of the observation; none if that is the next row's."""
    pairs = zip(columns.observation, reading.next_observation, strict=False)
    return tuple(dataclasses.replace(column, name=name) for column, name in pairs)


def with_columns_of(reading: Reading, known: Columns) -> Reading:
    """Return a description with the roles that the columns of an earlier table have."""
    observation, action = (tuple(column.name for column in role) for role in (known.observation, known.action))
    after = reading.next_observation if reading.observation == observation else ()
    reward = reading.reward or known.reward
    return dataclasses.replace(
        reading, observation=observation, action=action, reward=reward, next_observation=after, joint=known.joint
    )


def order_of(
    source: Source, reading: Reading, numbers: Mapping[str, np.ndarray]
) -> tuple[Int[np.ndarray, " row"] | None, Starts, Bool[np.ndarray, " row"]]:
    """Return the order of the rows, and masks of the ordered ones: first rows of episodes, and marked ends.

    The order is `None` if the rows of the file are in order.
    """
    count = len(numbers[reading.reward])
    last = np.zeros(count, bool)
    for name in (reading.terminated, reading.truncated):
        if name:
            last |= np.asarray(numbers[f"flag {name}"])
    codes, time = numbers.get("episode"), numbers.get("time")
    if codes is None and time is None:
        return None, np.append(True, last[:-1]), last
    codes = np.zeros(count, np.int32) if codes is None else codes
    change = np.append(True, codes[1:] != codes[:-1])
    grouped = int(change.sum()) == int(codes.max()) + 1
    if grouped and (time is None or not ((time[1:] <= time[:-1]) & ~change[1:] & ~last[:-1]).any()):
        starts = change.copy()
        starts[1:] |= last[:-1]
        return None, starts, np.append(starts[1:], reading.episode != ())
    if count > MOST_SORTED:
        raise ForageError(
            f"{source.path} has {count:,} rows that are not in the order of episodes and time; sort the file first, or "
            f"leave out time if the rows of each episode are in order."
        )
    found = order_rows(
        source.path, RowLabels([codes] if reading.episode else (), None if time is None else time, last), source.place
    )
    starts = np.append(True, found.ended[:-1])
    return found.rows, starts, found.ended.copy()


def link_rows(
    path: Path,
    reading: Reading,
    columns: Columns,
    after: tuple[Column, ...],
    numbers: dict[str, np.ndarray],
    order: Int[np.ndarray, " row"] | None,
    starts: Starts,
    marked: Bool[np.ndarray, " row"],
) -> TransitionTable:
    """Return the table with its transitions: which rows are one, and where episodes end and why."""
    count = len(starts)

    def in_order(array: np.ndarray) -> np.ndarray:
        return np.asarray(array) if order is None else array[order]

    unseen, unpaid = np.zeros(count, bool), np.zeros(count, bool)
    for column in columns.observation:
        unseen |= in_order(is_missing(numbers[column.name]))
        release_pages([numbers[column.name]])
    steps = [c.name for c in columns.action] + [reading.reward] + [n for n in [reading.behaviour_probability] if n]
    for name in steps:
        unpaid |= in_order(is_missing(numbers[name]))
        release_pages([numbers[name]])
    for column in after:
        unpaid |= in_order(is_missing(numbers[column.name]))
    ends = np.append(starts[1:], True)
    terminated = terminations(path, reading, numbers, in_order, ends)
    followed = np.append(~starts[1:] & ~unseen[1:], False)
    keep = ~unseen & ~unpaid & (terminated | (followed if not after else True))
    if not keep.any():
        raise ForageError(f"{path} holds only episodes of one row, from which no next observation can be told.")
    # An episode ends where the next row is not kept, or begins another one.
    last = keep & (ends | ~np.append(keep[1:], False))
    begins = keep & (starts | np.append(True, ~keep[:-1]))
    late = ~starts[begins]  # what follows a gap is not a whole episode
    early = ~terminated & ~ends_well(ends, marked, after)
    cut = np.zeros(count, bool)
    cut[last] = early[last] | late
    table = TransitionTable(
        path,
        columns,
        after,
        numbers,
        order,
        keep,
        terminated,
        last,
        cut,
        begins & starts if late.any() else None,
        reading.behaviour_probability,
    )
    lost = table.omissions
    if lost > max(1, MOST_LOST * count) and not reading.lossy:
        raise ForageError(
            f"{path}: {lost:,} of {count:,} rows ({lost / count:.1%}) would be left out: they end an episode without "
            f"terminating, or a cell is missing, so nothing says what they led to; name columns of the next "
            f"observation, or say --lossy to leave these rows out."
        )
    return table


def ends_well(ends: np.ndarray, marked: np.ndarray, after: tuple[Column, ...]) -> Bool[np.ndarray, " row"]:
    """Return the mask of transitions at the end of an episode, as the file marks it."""
    over = ends & marked
    return over if after else over | np.append(over[1:], False)  # the last row itself has no next observation


def terminations(
    path: Path, reading: Reading, numbers: Mapping[str, np.ndarray], in_order: Any, ends: np.ndarray
) -> Bool[np.ndarray, " row"]:
    """Return the mask of rows that terminate. Raise `ForageError` if the description does not tell."""
    none = np.zeros(len(ends), bool)
    truncated = in_order(numbers[f"flag {reading.truncated}"]) if reading.truncated else none
    if isinstance(reading.ends, int) and not reading.terminated:
        place = np.flatnonzero(ends)
        found = none.copy()
        found[place] = np.diff(place, prepend=-1) < reading.ends
        return found & ~truncated
    if reading.terminated:
        terminated = in_order(numbers[f"flag {reading.terminated}"])
        if not (reading.episode or reading.truncated or reading.ends):
            raise ForageError(
                f"{path} says where the task was over and not where time ran out, so an end cannot be told; say --ends "
                f"terminated or name the column of episodes (--episode)."
            )
        return terminated & ~truncated
    if reading.ends == TERMINATED:
        return ends & ~truncated
    if reading.ends == TRUNCATED:
        return none
    if reading.episode or reading.truncated:
        raise ForageError(f"{path} says where episodes end and not why; say --ends terminated or --ends truncated.")
    raise ForageError(f"{path} does not say where episodes end: name --terminated, --truncated or --episode.")
