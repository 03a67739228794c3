"""The description of a table as a TOML file, which a person corrects and reading follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from forage.core.storage import archives
from forage.core.types import ForageError
from forage.data.formats.reading import ROLES, ColumnReading, Reading, as_names, description_path, read_description
from forage.data.tables.faults import TableProfile, profile_table
from forage.data.tables.source import Source, as_plain

COMMENTS = {
    "observation": "what a policy sees",
    "next_observation": "what the step led to, in the same order; else the next row of the episode",
    "action": "what it chooses",
    "reward": "what it is paid",
    "terminated": "yes where the task was over, so that nothing follows",
    "truncated": "yes where only time ran out",
    "ends": "what an end means that no column explains: terminated or truncated",
    "episode": "rows of one name are an episode",
    "time": "the order of its rows",
    "behaviour_probability": "probability with which the action was chosen",
    "joint": "several categories of the action as one choice among their combinations",
    "lossy": "rows without a successor, such as the last of an episode, are left out",
    "blanks": "further texts that stand for a missing cell",
}


def describe_table(path: Path, said: Reading, write: bool = True) -> TableProfile:
    """Profile a table, and write a proposal for its description next to it, on top of an earlier one.

    `said`: roles and kinds that a person named. Raise `ForageError` if the table cannot be read.
    """
    if path.suffix.lower() not in (".csv", ".parquet", ".tsv", ".txt"):
        raise ForageError(f"{path} is no table; forage data describe takes a .csv or a .parquet file.")
    reading = said.fill_unset(read_description(path))
    source = Source(path, as_plain(vars(reading)), reading.blanks)
    source.check_names([name for role in ROLES for name in as_names(getattr(reading, role))] + list(reading.columns))
    found = profile_table(source, reading)
    if write:
        text = write_toml(found).encode()
        archives.write_atomically(description_path(path), lambda file: file.write(text))
    return found


def complete_reading(path: Path, said: Reading) -> tuple[Reading, list[str]]:
    """Return the whole description of a table, and sentences about guesses in it.

    The TOML file next to the table says what was not `said`; without one it is guessed, but for the action. Raise
    `ForageError` if a person has to decide first.
    """
    if (beside := read_description(path)) != Reading():
        return said.fill_unset(beside), []
    if not said.action:
        proposal = describe_table(path, said, write=False).reading.action
        guess = ",".join(proposal) or "COLUMN"
        why = ", as its name suggests" if proposal else ""
        raise ForageError(
            f"Nothing says which columns of {path} are the action; say --action {guess}{why}, or correct the proposal "
            f"that forage data describe {path} writes to {description_path(path).name}."
        )
    found = describe_table(path, said, write=False)
    if fatal := [fault for fault in found.faults if fault.fatal]:
        more = f" It is one of {len(fatal)}." if len(fatal) > 1 else ""
        raise ForageError(f"{path}: {fatal[0]}.{more} forage data describe {path} lists all that is wrong.")
    roles = {role: as_names(getattr(found.reading, role)) for role in found.guessed}
    guessed = [f"{role} {', '.join(names)}" for role, names in roles.items() if names]
    said_of = [f"{path.name}: guessed by their names are {'; '.join(guessed)}"] if guessed else []
    shown = [str(fault) for fault in found.faults if not fault.what.startswith("The reward is guessed")]
    return found.reading, said_of + [f"{path.name}: {line}" for line in shown]


def write_toml(found: TableProfile) -> str:
    """Return the description of a table as TOML, with a comment for each key."""
    reading, source = found.reading, found.source
    lines = [f"# How to read {source.path.name}; forage data describe wrote it. Correct it, and train with --data."]
    if not source.parquet:
        for name, value in zip(("delimiter", "decimal", "encoding"), source.dialect, strict=True):
            lines.append(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    for name, comment in COMMENTS.items():
        value = getattr(reading, name)
        needed = name in ("observation", "action", "reward")
        if value or needed:
            guess = ", guessed" if name in found.guessed and name != "observation" else ""
            lines.append(f"{name} = {toml_value(value)}  # {comment}{guess}")
    for name, column in reading.columns.items():
        lines += ["", f"[columns.{json.dumps(name, ensure_ascii=False)}]", *column_lines(column)]
    return "\n".join(lines) + "\n"


def column_lines(column: ColumnReading) -> list[str]:
    """Return the description of a column as lines of TOML."""
    values = {name: value for name, value in vars(column).items() if value not in ("", (), None)}
    return [f"{name} = {toml_value(value)}" for name, value in values.items()]


def toml_value(value: Any) -> str:
    """Return a value as TOML."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
