"""The user's description of a foreign file: the meaning of its columns and of the ends of its episodes."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forage.core.columns import KINDS
from forage.core.errors import nearest
from forage.core.plain import python_numbers
from forage.core.types import ForageError

TERMINATED, TRUNCATED = "terminated", "truncated"
LAST, TYPICAL, CUT = "last", "typical", "cut"
SEVERAL = ("observation", "next_observation", "action", "episode", "without", "blanks")  # may be several names


@dataclasses.dataclass(frozen=True)
class ColumnReading:
    """The description of one column of a table."""

    kind: str = ""  # number, category, boolean or date; by default the kind that its cells have
    names: tuple[str, ...] = ()  # of a category, in the order of their codes; of a boolean, its words for no and yes
    missing: str = ""  # value of a missing cell: last (of the episode), typical (median, most frequent), cut (the
    # episode ends before it), or a value
    low: float | None = None  # least value of an action's number
    high: float | None = None  # greatest value of an action's number


@dataclasses.dataclass(frozen=True)
class Reading:
    """The description of a file, from options or from the TOML file next to it."""

    observation: tuple[str, ...] = ()  # columns of a table, in the order of the environment's observation
    next_observation: tuple[str, ...] = ()  # columns of the observation that the step led to; else the next row's
    action: tuple[str, ...] = ()  # columns of the action
    reward: str = ""  # column of the reward
    terminated: str = ""  # column that is true where the task was over
    truncated: str = ""  # column that is true where only time ran out
    episode: tuple[str, ...] = ()  # columns whose values together name the episode of a row
    time: str = ""  # column that orders the rows of an episode: numbers, or dates such as 2024-01-31
    behaviour_probability: str = ""  # column of the probability with which the action was chosen, if it is known
    ends: str | int | None = None  # what an end means that the file does not explain: terminated, truncated, or N steps
    without: tuple[str, ...] = ()  # parts of a dictionary of observations that are left out
    lossy: bool = False  # more than one row in a hundred may be left out
    joint: bool = False  # several categories of an action are one choice among their combinations
    delimiter: str = ""  # between the cells of a CSV
    decimal: str = ""  # point or comma of its numbers
    encoding: str = ""  # of its text, such as cp1252
    blanks: tuple[str, ...] = ()  # further texts that stand for a missing cell of a table
    columns: Mapping[str, ColumnReading] = dataclasses.field(default_factory=dict)  # more about columns, by name

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings that are set, by name."""
        return {name: value for name in NAMES if (value := getattr(self, name)) not in ((), "", None, False, {})}

    def fill_unset(self, other: Reading) -> Reading:
        """Return these settings, with the other's for those that are unset here.

        A column that has a role here loses the one that it has there.
        """
        here = {name for role in ROLES for name in as_names(getattr(self, role))}
        theirs: dict[str, Any] = {}
        for role in ROLES:
            told = getattr(other, role)
            theirs[role] = tuple(n for n in told if n not in here) if isinstance(told, tuple) else told
            theirs[role] = "" if told in here else theirs[role]
        if len(other.next_observation) == len(other.observation):
            pairs = zip(other.observation, other.next_observation, strict=True)
            left = [pair for pair in pairs if not {*pair} & here]
            theirs["observation"], theirs["next_observation"] = (tuple(pair[i] for pair in left) for i in (0, 1))
        columns = {**other.columns, **self.columns}
        return dataclasses.replace(other, **theirs | self.settings | {"columns": columns})

    def to_json(self) -> str:
        """Return the settings that are set as JSON, which `parse_reading` takes."""
        plain = self.settings
        if self.columns:
            empty = ((), "", None)
            plain["columns"] = {
                column: {name: value for name, value in vars(told).items() if value not in empty}
                for column, told in self.columns.items()
            }
        return json.dumps(plain, ensure_ascii=False)


NAMES = tuple(field.name for field in dataclasses.fields(Reading))
ROLES = (
    *("observation", "next_observation", "action", "reward", "terminated", "truncated", "episode", "time"),
    "behaviour_probability",
)
"""The settings that name columns."""


def as_names(told: tuple[str, ...] | str) -> tuple[str, ...]:
    """Return the columns of a role as a tuple."""
    return ((told,) if told else ()) if isinstance(told, str) else told


def description_path(path: Path) -> Path:
    """Return the path of a file's description: `log.toml` for `log.csv`."""
    return path.with_suffix(".toml")


def read_description(path: Path) -> Reading:
    """Read the TOML file next to a data set; without one, return an empty description."""
    words = description_path(path)
    if words == path or not words.is_file():
        return Reading()
    try:
        found = tomllib.loads(words.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ForageError(f"{words} is not TOML: {error}.") from None
    except OSError as error:
        raise ForageError(f"{words} cannot be read: {error.strerror or error}.") from error
    return parse_reading(found, str(words))


def reading_from_json(text: str, where: str) -> Reading | None:
    """Return the description that `Reading.to_json` wrote; `None` for an empty text."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ForageError(f"The description of {where} is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise ForageError(f"The description of {where} is a JSON object, not {text!r}.")
    return parse_reading(found, f"The description of {where}")


def parse_reading(found: Mapping[str, Any], where: str) -> Reading:
    """Return the words that stand in a mapping. `where` they stand is for messages."""
    given: dict[str, Any] = {}
    for name, value in python_numbers(found).items():
        if name not in NAMES:
            raise ForageError(f"{where} knows no {name!r}{nearest(name, NAMES)}")
        if name == "ends":
            given[name] = parse_ends(value, where)
        elif name in ("lossy", "joint"):
            if not isinstance(value, bool):
                raise ForageError(f"{where}: {name} is true or false, not {value!r}.")
            given[name] = value
        elif name == "columns":
            given[name] = parse_columns(value, where)
        elif name in ("delimiter", "decimal") and (not isinstance(value, str) or len(value) != 1):
            raise ForageError(f'{where}: {name} is one character, such as ";", not {value!r}.')
        elif name in SEVERAL:
            listed = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
            listed = list(listed) if isinstance(listed, tuple) else listed
            if not isinstance(listed, list) or not all(isinstance(part, str) and part for part in listed):
                raise ForageError(f"{where}: {name} is a name or a list of names, not {value!r}.")
            given[name] = tuple(listed)
        elif not isinstance(value, str) or not value:
            raise ForageError(f"{where}: {name} is the name of a column, not {value!r}.")
        else:
            given[name] = value
    return Reading(**given)


def parse_columns(found: Any, where: str) -> dict[str, ColumnReading]:
    """Return the descriptions of columns by name."""
    if not isinstance(found, Mapping):
        raise ForageError(f"{where}: columns are tables such as [columns.price], not {found!r}.")
    known = [field.name for field in dataclasses.fields(ColumnReading)]
    made = {}
    for column, words in found.items():
        if not isinstance(words, Mapping):
            raise ForageError(f"{where}: [columns.{column}] is a table, not {words!r}.")
        for name, value in words.items():
            if name not in known:
                raise ForageError(f"{where}: [columns.{column}] knows no {name!r}{nearest(name, known)}")
            if name == "kind" and value not in KINDS:
                raise ForageError(f"{where}: the kind of column {column} is {', '.join(KINDS)}, not {value!r}.")
            if name == "names" and (not isinstance(value, list) or len(set(map(str, value))) != len(value)):
                raise ForageError(f"{where}: the names of column {column} are a list of different ones, not {value!r}.")
            if name in ("low", "high") and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ForageError(f"{where}: {name} of column {column} is a number, not {value!r}.")
        names = tuple(str(one) for one in words.get("names", ()))
        plain: dict[str, Any] = {
            **words,
            "names": names,
            **({"missing": str(words["missing"])} if "missing" in words else {}),
        }
        made[str(column)] = ColumnReading(**plain)
    return made


def parse_ends(value: Any, where: str) -> str | int:
    """Return the meaning of an end: `terminated`, `truncated`, or the time limit in steps."""
    if value in (TERMINATED, TRUNCATED):
        return value
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or int(text) < 1:
        raise ForageError(f"{where}: ends is terminated, truncated or a number of steps from 1, not {value!r}.")
    return int(text)
