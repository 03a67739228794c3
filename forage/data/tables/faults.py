"""The faults of a table, each with its first row and a proposal, and the description that follows from these."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from forage.data.formats.reading import CUT, LAST, TERMINATED, TRUNCATED, TYPICAL, ColumnReading, Reading
from forage.data.tables.numbers import read_episodes, read_times
from forage.data.tables.profile import MOST_NAMES, MOST_WHOLE, SHARE, ColumnProfile, profile_columns
from forage.data.tables.roles import ROLES, UNNAMED, ending_role, guess_reading, role_of
from forage.data.tables.source import Source


@dataclasses.dataclass(frozen=True)
class TableFault:
    """A fault of a table: a sentence, the number of rows that have it, the first of them, and a proposal."""

    what: str
    proposal: str
    rows: int = 0
    first: str = ""  # as a message names it: line 12
    fatal: bool = False  # nothing can be learned before a person decides

    def __str__(self) -> str:
        where = f", first in {self.first}" if self.first else ""
        return f"{self.what}{where}. {self.proposal}"


@dataclasses.dataclass(frozen=True)
class TableProfile:
    """The profile of a table, as `forage data describe` prints it, and the description that it proposes."""

    source: Source
    columns: dict[str, ColumnProfile]
    reading: Reading
    guessed: list[str]
    faults: list[TableFault]

    @property
    def rows(self) -> int:
        return next(iter(self.columns.values())).rows

    def role(self, name: str) -> str:
        """Return the role of a column in words."""
        for role in (*ROLES, "next_observation"):
            told = getattr(self.reading, role)
            if name == told or (not isinstance(told, str) and name in told):
                word = {"observation": "observed", "next_observation": "observed next"}.get(role, role)
                return f"{word}?" if role in self.guessed and role != "observation" else word
        return "left out"

    def lines(self) -> list[str]:
        """Return the profile for a terminal."""
        form = "Parquet" if self.source.parquet else f"{self.source.dialect.delimiter!r} between cells"
        if not self.source.parquet and self.source.dialect.decimal != ".":
            form += f", decimal {self.source.dialect.decimal!r}"
        said = [f"{self.source.path}: {self.rows:,} rows, {len(self.columns)} columns, {form}"]
        wide = min(32, max(map(len, self.columns)))
        for name, column in self.columns.items():
            gaps = f"; {column.missing:,} missing" if column.missing else ""
            if column.missing and name in (self.reading.terminated, self.reading.truncated):
                gaps = f"; blank, which is no, in {column.missing:,} rows"
            kind = self.reading.columns[name].kind if name in self.reading.columns else column.kind
            said.append(f"  {name:<{wide}} {kind:<9} {self.role(name):<14} {column.range_words()}{gaps}")
        if self.faults:
            said.append(f"  {len(self.faults)} to look at:")
            said += [f"  {'!' if fault.fatal else ' '}{n:>2}. {fault}" for n, fault in enumerate(self.faults, 1)]
        return said

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "file": str(self.source.path),
            "rows": self.rows,
            "columns": [
                {
                    "name": name, "kind": column.kind, "role": self.role(name), "missing": column.missing,
                    "names": list(column.names) if column.kind in ("category", "boolean") else [],
                    "low": column.low if column.kind == "number" else None,
                    "high": column.high if column.kind == "number" else None,
                }
                for name, column in self.columns.items()
            ],
            "guessed": self.guessed,
            "faults": [dataclasses.asdict(fault) for fault in self.faults],
        }  # fmt: skip


def profile_table(source: Source, said: Reading) -> TableProfile:
    """Profile a table, guess missing roles, and list all faults with proposals."""
    source.skipped = []
    columns = profile_columns(source)
    reading, guessed = guess_reading(columns, said)
    faults: list[TableFault] = []
    if source.skipped:
        faults.append(
            TableFault(
                f"{len(source.skipped):,} rows have another number of cells than the {len(source.names)} columns, as "
                f"in {source.skipped[0]}",
                "Quote cells that hold the delimiter, or remove these rows",
                len(source.skipped),
                fatal=True,
            )
        )
    described = dict(said.columns)
    for name, column in columns.items():
        role = role_of(reading, name)
        described[name] = describe_column(column, role, said.columns.get(name), source, faults)
    left = [n for n, c in columns.items() if not role_of(reading, n)]
    for name in left:
        described.pop(name, None)
        column = columns[name]
        named = ending_role(name)
        if named and not getattr(reading, named) and column.kind != "empty" and not said.observation:
            faults.append(
                TableFault(
                    f"Column {name} is named like {named} and has {column.range_words()}, which is neither yes nor no",
                    "Correct its cells, or name the columns to observe with --observation",
                    fatal=True,
                )
            )
            continue
        why = {"text": "it has a name of its own in too many rows", "empty": "it has no cell"}.get(column.kind)
        why = "it has no name" if why is None and UNNAMED.fullmatch(name) else why
        if why is not None or not said.observation:
            faults.append(
                TableFault(
                    f"Column {name} has no role, as {why or f'its cells are of kind {column.kind}'}",
                    "It is left out",
                )
            )
    reading = dataclasses.replace(reading, columns={n: c for n, c in described.items() if c != ColumnReading()})
    reading, more = check_roles(source, columns, reading, guessed)
    return TableProfile(source, columns, reading, guessed, faults + more)


def describe_column(
    column: ColumnProfile, role: str, said: ColumnReading | None, source: Source, faults: list[TableFault]
) -> ColumnReading:
    """Return the description of one column, and note its faults."""
    if not role:
        return said or ColumnReading()
    observed = role in ("observation", "next_observation")
    kind = (said.kind if said else "") or column.kind
    for text, (count, row) in list(column.odd().items())[:5]:
        faults.append(
            TableFault(
                f"Column {column.name} has {text!r} among its {kind}s in {count:,} rows",
                f"Correct the cell, or count it as missing: blanks = [{text!r}]",
                count,
                source.place(row),
                fatal=kind in ("number", "date"),
            )
        )
    marked = [text for text in column.texts if MARKED_NUMBER.fullmatch(text) and source.number(text) is None]
    if kind in ("text", "category") and not (said and said.kind) and len(marked) > SHARE * len(column.texts):
        faults.append(
            TableFault(
                f"Column {column.name} has numbers with signs that numbers do not have, as in {marked[0]!r}",
                f'Write them without, or say that they are names: kind = "category" in [columns.{column.name}]',
                fatal=True,
            )
        )
        return said or ColumnReading()
    if role in ("reward", "behaviour_probability") and column.kind != "number":
        words = role.replace("_", " ")
        faults.append(
            TableFault(
                f"Column {column.name} is to be the {words} and has {column.range_words()}, which are no numbers",
                f"Write numbers, or name another column with --{role.replace('_', '-')}",
                first=source.place(min((row for _, row in column.others.values()), default=0)),
                fatal=True,
            )
        )
        return said or ColumnReading()
    if observed and kind == "number" and column.whole and max(-column.low, column.high) > MOST_EXACT:
        faults.append(
            TableFault(
                f"Column {column.name} has whole numbers up to {column.high:.0f}, whose last digits are lost",
                "Leave it out of observation if it names something",
            )
        )
    if kind in ("text", "empty") and (observed or role == "action"):
        faults.append(
            TableFault(
                f"Column {column.name} is {'empty' if kind == 'empty' else f'a text with {column.range_words()}'}, "
                f"which is neither a number nor one of up to {MOST_NAMES} names",
                f"Take it out of {role}",
                fatal=True,
            )
        )
        return said or ColumnReading()
    if role == "action" and kind == "number" and column.whole and not column.many and len(column.texts) <= MOST_WHOLE:
        kind = "category"  # whole numbers of an action are choices
    if role not in ("observation", "next_observation", "action", "reward", "behaviour_probability"):
        return said or ColumnReading()
    missing = said.missing if said else ""
    if column.missing and not missing:
        missing = LAST if observed and column.kind != "boolean" else CUT
        if column.kind == "boolean" and len(column.texts.keys() - column.nameless.keys()) == 1:
            missing = next(name for name in column.names if name not in column.texts)
        does = {
            LAST: "takes the last value of the episode",
            CUT: "ends the episode before it",
            TYPICAL: "takes the typical one",
        }.get(missing, f"counts as {missing}")
        faults.append(
            TableFault(
                f"{column.missing:,} rows have no {column.name}",
                f"A missing cell {does} (missing = {missing!r})",
                column.missing,
                source.place(column.first_missing or 0),
            )
        )
    names = (said.names if said else ()) or (column.names if kind in ("category", "boolean") else ())
    bounds = (column.low, column.high) if role == "action" and kind == "number" else (None, None)
    low, high = (a if a is not None else b for a, b in zip((said.low, said.high) if said else (None, None), bounds))  # noqa: B905
    return ColumnReading(kind if observed or role == "action" else "number", names, missing, low, high)


MARKED_NUMBER = re.compile(r"[-+]?[$€£]?\s?\d{1,3}(?:\d*|(?:[,' ]\d{3})+)(?:[.,]\d+)?\s?[%$€£]?")
"""A number with thousands apart, a currency or a sign of percent."""
MOST_EXACT = 2.0**53  # largest number up to which whole numbers are kept exactly


def constant_faults(columns: dict[str, ColumnProfile], reading: Reading) -> list[TableFault]:
    """Return the faults of actions and rewards that have one value alone."""
    fixed = [name for name in reading.action if name in columns and len(columns[name].texts) == 1]
    faults = []
    for name in fixed:
        words = reading.columns.get(name, ColumnReading())
        if words.low is not None and words.high is not None and words.low < words.high:
            continue
        alone = len(fixed) == len(reading.action)
        faults.append(
            TableFault(
                f"Column {name} of the action is {next(iter(columns[name].texts))!r} in every row",
                "There is nothing to choose; name other columns with --action" if alone else "Take it out of action",
                fatal=alone,
            )
        )
    paid = columns.get(reading.reward)
    if paid is not None and paid.numbers and paid.low == paid.high:
        faults.append(
            TableFault(
                f"The reward is {paid.low:g} in every row",
                "Only the ends of episodes tell actions apart",
            )
        )
    return faults


def check_roles(
    source: Source, columns: dict[str, ColumnProfile], reading: Reading, guessed: list[str]
) -> tuple[Reading, list[TableFault]]:
    """Complete the description of episodes, and return it with the faults of roles and of the order of rows."""
    faults = []
    for role in ("action", "reward"):
        if not getattr(reading, role):
            several = " (several with commas)" if role == "action" else ""
            faults.append(
                TableFault(f"No column is known to be the {role}", f"Name it with --{role} COLUMN{several}", fatal=True)
            )
        elif role in guessed:
            told = getattr(reading, role)
            told = told if isinstance(told, str) else ", ".join(told)
            faults.append(TableFault(f"The {role} is guessed to be {told}", f"If it is not, say --{role} COLUMN"))
    if not (reading.episode or reading.terminated or reading.truncated):
        faults.append(
            TableFault(
                "Nothing tells where episodes end",
                "Name a column with --episode, --terminated or --truncated; else the table is one episode",
                fatal=True,
            )
        )
    faults += constant_faults(columns, reading)
    if not any(fault.fatal for fault in faults):
        reading, more = check_order(source, reading)
        faults += more
    return reading, faults


def check_order(source: Source, reading: Reading) -> tuple[Reading, list[TableFault]]:
    """Check episodes and times row by row."""

    faults: list[TableFault] = []
    codes, time = read_episodes(source, reading.episode), None
    if codes is None:
        if not reading.ends:
            ends = TERMINATED if reading.terminated else TRUNCATED
            reading = dataclasses.replace(reading, ends=ends)
            faults.append(
                TableFault(f"Only {ends} rows are told apart", f"Each end is taken for {ends} (ends = {ends!r})")
            )
        return reading, faults
    change = np.append(True, codes[1:] != codes[:-1])
    episodes, runs = int(codes.max()) + 1, int(change.sum())
    if reading.time:
        time = read_times(source, reading.time)
        order = np.arange(len(codes)) if runs == episodes else np.lexsort((time, codes))
        same = codes[order][1:] == codes[order][:-1]
        step = np.diff(time[order])
        back, twice = same & (step < 0), same & (step == 0)
        if runs == episodes and begins_anew(time, same, back):
            faults.append(
                TableFault(
                    f"{reading.time} goes back within an episode in {back.sum():,} rows",
                    "The rows of each episode lie together, so they are taken in the order of the file (time is left "
                    "out); else correct the times",
                    int(back.sum()),
                    source.place(int(order[1:][back][0])),
                )
            )
            reading = dataclasses.replace(reading, time="")
        elif twice.any() and runs == episodes and not back.any():
            reading = dataclasses.replace(reading, time="")
            faults.append(
                TableFault(
                    f"{twice.sum():,} rows of an episode have the {reading.time} of the row before",
                    "They are taken in the order of the file (time is left out)",
                    int(twice.sum()),
                    source.place(int(order[1:][twice][0])),
                )
            )
        elif twice.any():
            faults.append(
                TableFault(
                    f"{twice.sum():,} rows of an episode have the {reading.time} of another row of it",
                    "Name a finer time, or more columns that tell episodes apart (--episode A,B)",
                    int(twice.sum()),
                    source.place(int(order[1:][twice][0])),
                    fatal=True,
                )
            )
    elif runs > episodes:
        at = int(np.flatnonzero(change)[np.unique(codes[change], return_index=True)[1].size :][0]) if runs else 0
        faults.append(
            TableFault(
                f"{runs - episodes:,} episodes go on after rows of others, and no column tells the order",
                "Name it with --time COLUMN",
                runs - episodes,
                source.place(at),
                fatal=True,
            )
        )
    lengths = np.bincount(codes)
    if (lengths == 1).any():
        faults.append(
            TableFault(
                f"{(lengths == 1).sum():,} episodes have one row",
                "They are left out, unless the row terminates",
                int((lengths == 1).sum()),
                source.place(int(np.flatnonzero(lengths[codes] == 1)[0])),
            )
        )
    if not (reading.terminated or reading.ends):
        reading = dataclasses.replace(reading, ends=TRUNCATED)
        faults.append(
            TableFault(
                "Nothing says why episodes end",
                'Each is taken for cut off, so that its value goes on (ends = "truncated"); if the task was over '
                'there, say ends = "terminated"',
            )
        )
    return dataclasses.replace(reading, lossy=True) if not reading.next_observation else reading, faults


MOST_ANEW = 0.02  # share of steps at which a time that begins anew goes back


def begins_anew(
    time: Float[np.ndarray, " row"], same: Bool[np.ndarray, " step"], back: Bool[np.ndarray, " step"]
) -> bool:
    """Return whether a time that goes back restarts, as months do after a year, so that rows are in order already.

    Rows that are out of order go back often, or return at the next row to the time before.
    """
    if not back.any() or back.sum() > MOST_ANEW * same.sum():
        return False
    at = np.flatnonzero(back)
    at = at[(at > 0) & (at + 2 < len(time))]
    at = at[same[at - 1] & same[at + 1]]  # with a row of the episode before and after
    return not len(at) or float(np.mean((time[at + 2] < time[at]) & (time[at + 1] < time[at - 1]))) > 0.5
