"""Reading the files of a run: JSON that may be damaged or foreign. Raises one sentence for invalid content.

Texts come back without control characters, which could clear a terminal or turn its words around.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forage.core.errors import ForageError

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that steer a terminal or the direction of text; a new line and a tab do neither."""
MAY_CONTROL = re.compile(
    r"\\u(00[0189]|061|20[02]|206)|\\[bfr]|[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""The JSON escapes of such characters in a text."""

Number = (int, float)
DEEPEST = 64
"""Values within values that a run's files may have; they have seven."""


def printable(text: str) -> str:
    """Return text with its control characters written out, such as `\\x1b`."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """Return text, printable, on one line, so that a name cannot pretend to be more lines."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def parse_json(text: str) -> Any:
    """Return the value of some JSON, its texts printable. Raise `ValueError` if it is none."""
    try:
        found = json.loads(text)
        if text.count("[") + text.count("{") > DEEPEST:
            check_depth(found)
        return clean_texts(found) if MAY_CONTROL.search(text) else found
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_depth(value: Any) -> None:
    """Raise `ValueError` for values nested without end, which would exhaust a recursive reader."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, list | dict)]
        level = [one for items in inner for one in items if isinstance(one, list | dict)]


def clean_texts(value: Any) -> Any:
    """Return plain data with its texts printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [clean_texts(item) for item in value]
    if isinstance(value, dict):
        return {printable(key): clean_texts(item) for key, item in value.items()}
    return value


def read_record(path: Path, fits: Callable[[dict[str, Any]], str] = lambda found: "") -> dict[str, Any]:
    """Read a file of JSON that holds names with values.

    `fits` says what is wrong with them, or nothing. Raise `ForageError` if something is.
    """
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"it holds a {type(found).__name__} and no names with values")
        if wrong := fits(found):
            raise ValueError(wrong)
        return found
    except FileNotFoundError:
        raise ForageError(f"{path.parent} is not a whole run: it has no {path.name}.") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise ForageError(f"{path} cannot be read: {why}.") from error


NEEDED = ("agent", "environment", "steps", "seeds", "sweep", "spec")
"""The keys that every run's configuration has."""


def read_config(directory: Path) -> dict[str, Any]:
    """Return a run's configuration. Raise `ForageError` if there is none, or one of another kind."""
    path = directory / "config.json"
    try:
        config = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ForageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    missing = [name for name in NEEDED if not isinstance(config, dict) or name not in config]
    if isinstance(config, dict) and "model_type" in config:
        raise ForageError(
            f"{path} is not the configuration of a run of Forage, but of a model: forage train takes it as --model, "
            f"forage chat {directory} talks with it, and forage evaluate {directory} text:FILE asks it prompts."
        )
    if missing:
        raise ForageError(f"{path} is not the configuration of a run of Forage: it has no {missing[0]!r}.")
    if wrong := wrong_config(config):
        raise ForageError(f"{path} is not the configuration of a run of Forage: {wrong}.")
    config["spec"]["name"] = one_line(config["spec"]["name"])
    return config


def read_evaluation(directory: Path) -> dict[str, Any] | None:
    """Return a run's evaluation; `None` before there is one, or if a crash of the machine left its file empty."""
    path = directory / "evaluation.json"
    if not path.exists() or not path.stat().st_size:
        return None
    return read_record(path, wrong_evaluation)


def range_in(evaluation: dict[str, Any] | None) -> tuple[float, float] | None:
    """Return the range of the return, if the evaluation holds it."""
    found = (evaluation or {}).get("return_range")
    known = isinstance(found, list) and len(found) == 2 and all(isinstance(end, int | float | None) for end in found)
    if not known:
        return None
    low, high = found
    return -math.inf if low is None else low, math.inf if high is None else high


def read_lines(
    path: Path, fits: Callable[[dict[str, Any]], str] = lambda found: ""
) -> tuple[list[dict[str, Any]], list[int]]:
    """Read a file with an object of JSON on each line. Return them, and the numbers of lines that are damaged.

    A damaged line costs that line alone. The last one, where it is not whole, is what a crash has left, and is left out
    without a number.
    """
    rows: list[dict[str, Any]] = []
    damaged: list[int] = []
    if not path.exists():
        return rows, damaged
    try:
        lines = path.read_bytes().decode(errors="replace").split("\n")
    except OSError as error:
        raise ForageError(f"{path} cannot be read: {error.strerror or error}.") from error
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line)
            if not isinstance(row, dict) or fits(row):
                raise ValueError(line)
        except ValueError:
            if number < len(lines):
                damaged.append(number)
            continue
        rows.append(row)
    return rows, damaged


# Kinds of values


def is_number(value: Any) -> bool:
    return isinstance(value, Number) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def are(values: Any, kind: Callable[[Any], bool], least: int = 0) -> bool:
    """Return whether a value is a list of one kind, of `least` items or more."""
    return isinstance(values, list) and len(values) >= least and all(map(kind, values))


def is_measured(value: Any) -> bool:
    """Return whether a value is a number, or none for lack of a measurement."""
    return value is None or is_number(value)


def wrong_row(row: dict[str, Any]) -> str:
    """Describe the mistake in a line about a step of a run; empty without one."""
    return "" if is_whole(row.get("steps")) and row["steps"] >= 0 else "steps is no whole number"


def wrong_point(row: dict[str, Any], members: int | None = None) -> str:
    """Describe the mistake in a point of a curve: the values of `members` members, or one of the whole run."""
    if wrong := wrong_row(row):
        return wrong
    if not are(row.get("return"), is_measured) or (members is not None and len(row["return"]) != members):
        return "return is not a number for each member"
    for name, value in row.items():
        if isinstance(value, list) and (not are(value, is_measured) or len(value) != len(row["return"])):
            return f"{name} is not a number for each member"
        if isinstance(value, dict) or (name in ("seconds", "steps_per_second") and not is_measured(value)):
            return f"{name} is no number"
    return ""


def wrong_config(config: dict[str, Any]) -> str:
    """Describe the mistake in the configuration of a run; empty without one."""
    environment, spec, sweep = config["environment"], config["spec"], config["sweep"]
    parts = [config[name] for name in ("agent", "behaviour", "rewards", "memory", "tasks", "starts") if name in config]
    if not all(isinstance(part, dict) and isinstance(part.get("part"), str) for part in parts):
        return "a part has no name"
    if not isinstance(environment, dict) or not isinstance(
        environment.get("id", environment.get("object", environment.get("data"))), str
    ):
        return "the environment has no id"
    if not isinstance(environment.get("options") or {}, dict) or not are(environment.get("wrap", []), is_text):
        return "the environment's options are not names with values"
    if not are(config["seeds"], is_whole, 1) or not is_whole(config["steps"]):
        return "seeds and steps are not whole numbers"
    if not isinstance(sweep, dict) or not all(are(values, is_number, 1) for values in sweep.values()):
        return "the sweep is not of numbers"
    spaces = isinstance(spec, dict) and all(
        isinstance(spec.get(f"{name}_space"), dict) for name in ("observation", "action")
    )
    if not spaces or not isinstance(spec.get("name"), str) or not are(spec.get("reward_names"), is_text):
        return "spec does not say what the environment is"
    if not (spec.get("horizon") is None or is_whole(spec["horizon"])) or not is_whole(spec.get("num_agents", 1)):
        return "spec does not say what the environment is"
    if not isinstance(config.get("parent") or {}, dict) or not isinstance(config.get("ends") or {}, dict):
        return "parent or ends are not names with values"
    if not all(is_number(value) for value in (config.get("ends") or {}).values()):
        return "ends are not numbers"
    if not isinstance(config.get("history", []), list):
        return "history is no list"
    return ""


def wrong_evaluation(found: dict[str, Any]) -> str:
    """Describe the mistake in an evaluation; empty without one."""
    returns = found.get("return", [])
    if not are(returns, is_measured, 1):
        return "it has not a return for each member"
    members = found.get("members", [])  # which every version but the first says
    if not are(members, is_member) or len(members) not in (0, len(returns)):
        return "it has not a return for each member"
    if not is_whole(found.get("episodes", 1)) or not is_whole(found.get("steps", 0)):
        return "episodes and steps are not whole numbers"
    if not isinstance(found.get("actions", "greedy"), str) or not isinstance(found.get("choice") or {}, dict):
        return "it does not say how the agent acted"
    for name in ("cut", "cut_after", "no_reward"):
        if not is_whole(found.get(name, 0)):
            return f"{name} is no whole number"
    if not all(isinstance(found.get(name, []), list) for name in ("episode_returns", "episode_lengths")):
        return "its episodes are no list"
    return ""


def wrong_event(row: dict[str, Any]) -> str:
    """Describe the mistake in a line of a run's history; empty without one."""
    if wrong := wrong_row(row):
        return wrong
    totals = row.get("event") != "extended" or (is_whole(row.get("from")) and is_whole(row.get("to")))
    reason = row.get("event") != "stopped" or isinstance(row.get("reason"), str)
    settings = row.get("settings", {})
    pairs = isinstance(settings, dict) and all(isinstance(pair, list) and len(pair) == 2 for pair in settings.values())
    return "" if isinstance(row.get("event"), str) and totals and reason and pairs else "it is no event of a run"


def wrong_texts(row: dict[str, Any]) -> str:
    """Describe the mistake in the conversations of an evaluation; empty without one."""

    def is_conversation(one: Any) -> bool:
        said = one.get("said") if isinstance(one, dict) else None
        pairs = isinstance(said, list) and all(are(pair, is_text) and len(pair) == 2 for pair in said)
        return pairs and {"reward", "verdict", "reference"} <= one.keys()

    good = are(row.get("members"), lambda each: are(each, is_conversation))
    return wrong_row(row) or ("" if good else "it holds no conversations")


def is_member(value: Any) -> bool:
    return isinstance(value, dict) and is_whole(value.get("seed")) and all(map(is_number, value.values()))


def is_text(value: Any) -> bool:
    return isinstance(value, str)
