"""Claims as rows: a table of TOML for each claim, in a file for each theme, found and read without importing JAX.

    [gae-lambda]
    title = "High-Dimensional Continuous Control Using Generalized Advantage Estimation"
    authors = "Schulman, Moritz, Levine, Jordan, Abbeel"
    year = 2016
    source = "1506.02438"              # the number on arXiv, or another place of publication
    statement = "..."                  # one sentence
    parts = ["ppo"]                    # the parts whose pages show the claim; that of the claim's own name by default
    environment = "Pendulum-v1"
    treatment = "lambda 0.95"          # the arm that the claim is about
    baselines = ["lambda 0"]           # the arms that it is compared with; all others by default
    measure = "evaluation_return"              # a function from a run to a number for each seed
    measured = "return"                # the measure in words
    reach = [-1200.0, -150.0]          # the measure of an arm that learns nothing, and of one that has learned
    also = [{measure = "area", measured = "return over training", higher = true}]  # shown, and decides nothing
    rule = {margin = 0.0, higher = true, confidence = 0.95, paired = false}  # paired: differences of equal seeds
    judge = "offline:judge_loss"       # a function in place of differences of means
    judged_by = "..."                  # its rule in words
    laptop = {steps = 100_000, seeds = "1000-1009"}  # of each arm; these seeds by default
    smoke = {steps = 2048}             # seeds 1000 and 1001 by default
    paper = {environment = "...", steps = 1, seeds = 3}  # its own setting; `options` of all arms, `arms` with theirs
    needs = "a GPU and days"           # hardware and time of the paper's setting
    lacks = "the data sets of D4RL"    # requirements of it that are missing here
    note = "..."                       # differences from the paper's experiment, and their reasons
    named.file = {call = "play_rule"}     # values by name, each to be used as {named = "file"}

    [gae-lambda.every_arm]             # words of all arms; those of an arm go before them, option by option
    options = {learning_rate = 1e-3}

    [gae-lambda.arms]
    "lambda 0" = {agent = "ppo", options = {lambda = 0.0}}
    "lambda 0.95" = {agent = "ppo"}

An arm has an `agent` and its `options`; an `environment` and `steps` of its own if they differ from the claim's; a run
`before` it with the same keys; and any other argument of `forage.train` by its name, such as `memory` or `data`.
A value is plain or one of

    {part = "mixed", capacity = 10_000}        a part by its name, or another class as `module:Class`, with its options
    {call = "play_rule", environment = "..."}     the result of a function, called when the arm is trained
    {function = "swing_up"}                    a function itself
    {repeat = [[20, 0.5], [1, 0.0]]}           a list: twenty times 0.5, and 0.0

A function is named alone if one of `SHARED` defines it, as `module:name` otherwise: a module in the folder of the
claim's file, such as the `offline:labelled` of offline.py, or any other by its full name.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from forage.config import former, packages
from forage.core.errors import ForageError

SHARED = tuple(f"forage.studies.claims.{module}" for module in ("claim", "played", "prepared", "text"))
"""The modules whose functions rows name without a module."""

WORDS = ("title", "authors", "year", "source", "note", "paper", "needs", "lacks", "smoke", "parts", "reach")
"""Keys of a row that describe the experiment, or the paper's, and are no part of it."""

NAMING = ("call", "function", "measure", "judge")
"""Keys whose value names a function."""


class Row(NamedTuple):
    """A claim as its file has it."""

    name: str
    file: Path
    package: str  # that holds the claim
    table: Mapping[str, Any]


@functools.cache
def find_rows() -> dict[str, Row]:
    """Return the row of each claim by its name; a name that two packages have is the first one's.

    Warns of a file that is no TOML, and leaves it out.
    """
    found: dict[str, Row] = {}
    for package in folders():
        here: dict[str, Row] = {}
        for file in files_of(package):
            try:
                tables = parse_rows(file.read_text())
            except tomllib.TOMLDecodeError as error:
                packages.warn(f"The claims of {file} are left out: {error}.")
                continue
            for name, table in tables.items():
                if name in here:
                    packages.warn(
                        f"The claim {name} stands in {here[name].file.name} and in {file.name}; the first one counts."
                    )
                here.setdefault(name, Row(name, file, package, table))
        found = here | found
    return dict(sorted(found.items()))


def rows_about(part: str) -> dict[str, Row]:
    """Return the row of each claim that lists a part, or has its name, as `find_rows` does.

    Parses the tables that name the part alone: to parse all of them takes longer than the rest of a part's description.
    """
    found: dict[str, Row] = {}
    for package in folders():
        here: dict[str, Row] = {}
        for file in files_of(package):
            for text in re.split(r"^(?=\[[\w-]+\])", file.read_text(), flags=re.MULTILINE):
                if part in text:
                    try:
                        tables = parse_rows(text)
                    except tomllib.TOMLDecodeError:  # such as of a text with a line in brackets
                        return select_rows(find_rows(), part)
                    for name, table in tables.items():
                        here.setdefault(name, Row(name, file, package, table))
        found = here | found
    return select_rows(dict(sorted(found.items())), part)


def select_rows(rows: Mapping[str, Row], part: str) -> dict[str, Row]:
    """Return the rows about a part: that of its own name first, then those that list it."""
    found = [name for name, row in rows.items() if part in row.table.get("parts", [name])]
    return {name: rows[name] for name in sorted(found, key=lambda name: name != part)}


def files_of(package: str) -> list[Path]:
    """Return the files of claims of a package."""
    return sorted(file for path in importlib.import_module(package).__path__ for file in Path(path).glob("*.toml"))


@functools.cache
def parse_rows(text: str) -> dict[str, dict[str, Any]]:
    """Return the tables of claims in the text of a file, with their named values inserted.

    Raise `tomllib.TOMLDecodeError` for other text. A name that a table does not have stays for `building` to refuse.
    """
    found = {name: table for name, table in tomllib.loads(text).items() if isinstance(table, dict)}
    for name, table in found.items():
        if isinstance(named := table.get("named"), dict):
            try:
                found[name] = insert_named({key: one for key, one in table.items() if key != "named"}, named)
            except KeyError:
                continue
    return found


@functools.cache
def folders() -> list[str]:
    """Return the packages that hold claims. Warn of a package that fails to import, and leave it out."""
    found = []
    for package in packages.load_packages():
        if package.claims:
            try:
                packages.import_tables(package.claims)
                found.append(package.claims)
            except ForageError as error:
                packages.warn(f"The claims of the package {package.title} are left out: {str(error).rstrip('.:')}.")
    return found


def arms_of(table: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the words of each arm, those of every arm included."""
    every = table.get("every_arm", {})
    return {label: merge(every, own) for label, own in table.get("arms", {}).items()}


def merge(every: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of every arm with those of one over them: options, and words of a run before, one by one."""
    both = {key: merge(every[key], own[key]) for key in ("options", "before") if key in every and key in own}
    return {**every, **own, **both}


def insert_named(value: Any, named: Mapping[str, Any]) -> Any:
    """Return a value with the named ones in place of their names. Raise `KeyError` for an unknown name."""
    if isinstance(value, Mapping):
        if value.keys() == {"named"} and isinstance(value["named"], str):
            return named[value["named"]]
        return {key: insert_named(one, named) for key, one in value.items()}
    return [insert_named(one, named) for one in value] if isinstance(value, list) else value


def seeds_of(said: Any, default: tuple[int, ...]) -> tuple[int, ...]:
    """Return seeds given as a list or as a range such as "1000-1009". Raise `ValueError` for other words."""
    if said is None:
        return default
    if isinstance(said, str):
        first, _, last = said.partition("-")
        return tuple(range(int(first), int(last) + 1))
    if not isinstance(said, list) or not all(type(seed) is int for seed in said):
        raise ValueError
    return tuple(said)


def experiment(table: Mapping[str, Any]) -> str:
    """Return the experiment of a row as text: the same for one experiment, however it is written and described."""
    own = {key: value for key, value in table.items() if key not in (*WORDS, "every_arm", "arms", "baselines")}
    arms = arms_of(table)
    others = [label for label in arms if label != table.get("treatment")]
    try:
        laptop = {**table["laptop"], "seeds": seeds_of(table["laptop"].get("seeds"), ())}
    except (KeyError, TypeError, ValueError, AttributeError):
        laptop = table.get("laptop")
    own |= {"arms": list(arms.items()), "baselines": table.get("baselines", others), "laptop": laptop}
    return json.dumps(former.with_former(own), sort_keys=True, ensure_ascii=False, default=str)


def strings(value: Any) -> Iterator[str]:
    """Yield all text in a row's value, that of keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield key
            yield from strings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from strings(one)


def functions(value: Any) -> Iterator[str]:
    """Yield the name of every function in a row's value."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key in NAMING and isinstance(one, str):
                yield one
            else:
                yield from functions(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from functions(one)


def place_error(row: Row, sentence: str) -> ForageError:
    """Return the error of a row that cannot be read, with its file, the claim and the mistake."""
    return ForageError(f"{row.file.name}, claim {row.name}: {sentence}")
