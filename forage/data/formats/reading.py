"""The user's description of a foreign file: the meaning of its columns and of the ends of its episodes."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forage.core.errors import nearest
from forage.core.plain import python_numbers
from forage.core.types import ForageError

TERMINATED, TRUNCATED = "terminated", "truncated"
SEVERAL = ("observation", "next_observation", "action", "episode", "without")  # may be several names


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

    def fill_unset(self, other: Reading) -> Reading:
        """Return these settings, with the other's for those that are unset here."""
        said = {name: value for name in NAMES if (value := getattr(self, name)) not in ((), "", None, False)}
        return dataclasses.replace(other, **said)


NAMES = tuple(field.name for field in dataclasses.fields(Reading))


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


def parse_reading(found: Mapping[str, Any], where: str) -> Reading:
    """Return the words that stand in a mapping. `where` they stand is for messages."""
    given: dict[str, Any] = {}
    for name, value in python_numbers(found).items():
        if name not in NAMES:
            raise ForageError(f"{where} knows no {name!r}{nearest(name, NAMES)}")
        if name == "ends":
            given[name] = parse_ends(value, where)
        elif name == "lossy":
            if not isinstance(value, bool):
                raise ForageError(f"{where}: lossy is true or false, not {value!r}.")
            given[name] = value
        elif name in SEVERAL:
            listed = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
            if not isinstance(listed, list) or not all(isinstance(part, str) and part for part in listed):
                raise ForageError(f"{where}: {name} is a name or a list of names, not {value!r}.")
            given[name] = tuple(listed)
        elif not isinstance(value, str) or not value:
            raise ForageError(f"{where}: {name} is the name of a column, not {value!r}.")
        else:
            given[name] = value
    return Reading(**given)


def parse_ends(value: Any, where: str) -> str | int:
    """Return the meaning of an end: `terminated`, `truncated`, or the time limit in steps."""
    if value in (TERMINATED, TRUNCATED):
        return value
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or int(text) < 1:
        raise ForageError(f"{where}: ends is terminated, truncated or a number of steps from 1, not {value!r}.")
    return int(text)
