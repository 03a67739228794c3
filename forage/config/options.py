"""The options of a training in one table, and their conversion from words. Loads no JAX.

The command line, `forage.train`, files of settings and a run's config.json take an option by the same name, and take it
from here.
"""

from __future__ import annotations

import ast
import contextlib
import json
import textwrap
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from forage.config import former
from forage.core.elsewhere import ABSENT_OPTIONS
from forage.core.errors import ForageError, did_you_mean, nearest

if TYPE_CHECKING:
    from forage.config.part_options import Field


class Option(NamedTuple):
    """An option of a training."""

    name: str
    type: Any  # of a value in a file; of a word on the command line, where the first one of a union counts
    meaning: str = ""  # its line of help; empty where the help says it in other words
    value: str = "N"  # the word for a value in that line
    flag: bool = False  # it takes no value on the command line
    word: str = ""  # its name on the command line, with `_` for `-`, if that is another
    decides: bool = False  # it decides what is learned; a run that starts from another one takes it over
    in_call: bool = True  # `forage.train` has such an argument
    in_words: bool = True  # the command line has it
    in_file: bool = True  # a file of settings may have it


WINGS = {
    "agent": "agents",
    "tasks": "tasks",
    "starts": "starts",
    "behaviour": "behaviours",
    "rewards": "rewards",
    "memory": "memory",
}
"""The ports, each with the folder of its parts."""
PORTS = tuple(port for port in WINGS if port != "agent")
"""The ports of the parts around the agent."""


def part_option(port: str) -> Option:
    """Return the option that names the part of a port."""
    return Option(port, Any, value="NAME", decides=True)


OPTIONS: tuple[Option, ...] = (
    Option("agent", Any, in_words=False, decides=True),
    Option("environment", Any, in_words=False, decides=True),
    Option(
        "steps", int | float | str, "environment steps of each seed (500k, 5M, 1e6); with --data, updates", decides=True
    ),
    Option(
        "config",
        str,
        "settings from a config.json, or a TOML or YAML file with the same keys; options override them",
        "FILE",
        in_call=False,
        in_file=False,
    ),
    Option(
        "save_config",
        str,
        "write all settings with their meanings to a TOML file, and train nothing; forage train FILE.toml runs them",
        "FILE",
        in_call=False,
        in_file=False,
    ),
    Option(
        "start_from",
        str,
        "start with that run's weights, and by default its agent, parts, steps and seeds",
        "RUN",
        word="from",
        in_file=False,
    ),
    Option(
        "trust",
        bool,
        "use the maker's code and address named in RUN; they are shown and remembered",
        flag=True,
        in_call=False,
        in_file=False,
    ),
    Option(
        "with_memory", bool, "start with its replay memory too; steps count on from there", flag=True, in_file=False
    ),
    Option(
        "data",
        str,
        "learn from a data set alone (forage data record, convert) or from recorded text (JSONL and more), without "
        "environment steps; for both together: --memory mixed --memory.data FILE",
        "FILE",
        in_file=False,
    ),
    Option(
        "evaluate",
        str,
        "with --data and without ENVIRONMENT: also play evaluation episodes in this one, of any kind; or a file of "
        "recorded text, whose rows are measured; with prompts of text:FILE: those of a second file, text:OTHER",
        "ENVIRONMENT",
        in_file=False,
    ),
    Option(
        "held_out",
        float | None,
        "share of the episodes of a data set that are measured and not learned from; default 0.1 without an "
        "environment, else 0",
        "SHARE",
        in_file=False,
    ),
    Option(
        "seeds",
        int | Sequence[int],
        "number of seeds, or a list of them (3, with its comma: seed 3 alone); default 5, on the host 3",
        "N | a,b,c",
        decides=True,
    ),
    Option("directory", str, "directory of the run; default runs/AGENT-ENVIRONMENT-TIME", "PATH", in_file=False),
    Option("evaluation_episodes", int, "episodes of each seed for the score"),
    Option(
        "evaluation_every", int | float | str, "also evaluate every N steps of each seed, without affecting training"
    ),
    Option("stop_at", float, "stop once an evaluation reaches this score; in a sweep, every setting", "SCORE"),
    Option("keep", str, "keep the agents of the best evaluation (forage evaluate RUN --checkpoint best)", "best"),
    Option("keep_every", int, "keep the agents of every N steps"),
    Option(
        "evaluation_actions",
        str,
        "auto: the better of the two in separate episodes",
        "auto | greedy | sampled",
        decides=True,
    ),
    Option(
        "opponent",
        str,
        "the player of the other seats in evaluation: random, perfect or a run's directory",
        "NAME",
        decides=True,
    ),
    Option("devices", int, "number of devices of the run; default all accelerators, on the CPU one for each seed"),
    Option(
        "mesh",
        str,
        "devices that share one language model: its rows and weights by data, heads, units and vocabulary by model",
        "data:N,model:M",
    ),
    Option(
        "workers",
        str | int,
        "processes of each seed that step environments on the host; ray:N for actors of a Ray cluster",
    ),
    Option("worker_threads", int, "threads of each worker, for environments that wait, or compute outside of Python"),
    Option(
        "async_envs", bool, "workers do not wait for each other within a rollout; the result is the same", flag=True
    ),
    Option(
        "policy_lag", int, "workers play whole rollouts with parameters N updates old; with 1 or more, during learning"
    ),
    Option(
        "step_timeout", float, "maximal seconds of a worker for one step; a slower one is replaced; default 600", "S"
    ),
    Option("hosts", int, "processes or machines that share the run; this one leads, the others call forage join"),
    Option("coordinator", str, "the address of this host, where the others find it", "NAME:PORT"),
    Option(
        "visits",
        bool,
        "count the visits to each cell of the environment's map, and the steps to the first reward",
        flag=True,
        decides=True,
    ),
    Option("checkpoint_seconds", float, "seconds between checkpoints; default 30", "S"),
    Option(
        "sweep",
        Mapping[str, Sequence[float]],
        "train every value of a number of the agent, all in one program",
        "NAME=a,b,c",
        decides=True,
    ),
    Option(
        "track",
        Sequence[str] | str,
        "also write the numbers to trackers: tensorboard, wandb, mlflow, trackio, csv or file.py:Class",
        "wandb,csv",
    ),
    Option("display", str, in_words=False, in_file=False),
    Option("callbacks", Any, in_words=False, in_file=False),
    Option("agent_options", Mapping[str, Any], in_words=False, in_file=False),
    Option("environment_options", Mapping[str, Any], in_words=False, in_file=False),
    Option(
        "wrap",
        Sequence[str],
        "wrap the environment; repeat for further, outer wrappers (forage list wrappers)",
        "NAME:VALUE",
        in_file=False,
    ),
    *map(part_option, PORTS),
    Option(
        "reward_weights",
        Sequence[float],
        "weights of the reward functions that --rewards names, in their order; default 1 each",
        "a,b",
    ),
)
"""Every option of a training: of the command line in the order of its help, of `forage.train`, and of files."""

READING: tuple[Option, ...] = (
    Option(
        "observation",
        Sequence[str] | str,
        "columns that a policy sees, in the environment's order if there is one",
        "A,B,...",
    ),
    Option("action", Sequence[str] | str, "columns that a policy chooses", "A,B,..."),
    Option("reward", str, "column of the reward", "A"),
    Option(
        "next_observation",
        Sequence[str] | str,
        "columns that a step led to, in the same order; else the next row's",
        "A,B,...",
    ),
    Option("terminated", str, "column that is true where the task was over", "A"),
    Option("truncated", str, "column that is true where only time ran out", "A"),
    Option(
        "episode",
        Sequence[str] | str,
        "columns that identify each row's episode, in any order of rows (also arrays of HDF5)",
        "A,...",
    ),
    Option("time", str, "column of the order within an episode: numbers, or dates such as 2024-01-31", "A"),
    Option("behaviour_probability", str, "column of the probability with which the action was chosen", "A"),
    Option(
        "ends",
        str | int,
        "kind of an end that the file leaves open: terminated, truncated, or N (the time limit in steps)",
        "WHAT",
    ),
    Option("without", Sequence[str] | str, "parts of a dictionary of observations to leave out (Minari)", "PART,..."),
    Option("lossy", bool, "drop rows without a successor even if they are more than 1 in 100", flag=True),
    Option("joint", bool, "several categories of an action are one choice among their combinations", flag=True),
    Option("delimiter", str, "character between the cells of a CSV; by default as in its first line", "C"),
    Option("decimal", str, "decimal point of a CSV; by default as in its first lines", "C"),
    Option("encoding", str, "encoding of the text of a CSV, such as cp1252; by default utf-8", "NAME"),
    Option("blanks", Sequence[str] | str, "further texts that stand for a missing cell", "A,B,..."),
)
"""The options that say how a file of others is read: of a training with --data, and of `forage data`.

A description of a table has them by the same names (`data/formats/reading.py`).
"""
READING_NAMES = tuple(option.name for option in READING)

ARGUMENTS = tuple(option.name for option in OPTIONS if option.in_call)
"""The arguments of `forage.train` itself, without options of the agent."""
WORDS = ("quiet", "plain", *(option.word or option.name for option in OPTIONS if option.in_words), *READING_NAMES)
"""The options of `forage train` on the command line, without options of parts, with `_` for `-`."""

AUTO = "auto"
ACTIONS = {"greedy": "greedily", "sampled": "with sampled actions"}
"""The ways an agent can play, each as an adverb for messages."""


def help_lines(names: Collection[str] = ()) -> str:
    """Return the lines of help about the options of these names; of no names, about every option with a meaning."""
    shown = [option for option in OPTIONS if option.meaning and (not names or option.name in names)]
    return "".join(map(help_line, shown))


def reading_lines() -> str:
    """Return the lines of help about the options that say how a file of others is read."""
    return "".join(map(help_line, READING))


def help_line(option: Option) -> str:
    """Return an option and its meaning as help shows them, in lines of at most 120 columns."""
    left = f"  --{hyphens(option.word or option.name)}{'' if option.flag else f' {option.value}'}"
    left = f"{left:24} " if len(left) < 24 else f"{left}   "
    return textwrap.fill(option.meaning, 120, initial_indent=left, subsequent_indent=" " * 25) + "\n"


Word = str | bool | list[str]
Words = dict[str, Word]
DASHES = "\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}"
"""Characters that editors and pages put in place of two hyphens."""
LISTED = {
    int: "one or more whole numbers with commas between them, such as 64,64",
    float: "one or more numbers with commas between them, such as 0.0003,0.001",
}
"""Descriptions of lists on the command line, by the type of their elements."""


def split(arguments: list[str], flags: set[str], lists: Collection[str] = ()) -> tuple[list[str], Words]:
    """Part words into positional ones and options: `--name value`, `--name=value`, `--flag`, `--no-flag`.

    `flags` take no value; `lists` may be given more than once, and come back as lists. Names come back with `_` for
    `-`, parts' prefixes (`memory.capacity`) kept.
    """
    positional: list[str] = []
    options: Words = {}
    words = iter(arguments)
    for word in words:
        if word and word[0] in DASHES:
            raise ForageError(f"Unknown option {word!r}{did_you_mean(['--' + word.lstrip(DASHES)])}")
        if not word.startswith("--"):
            positional.append(word)
            continue
        name, given, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if name in options and name not in lists:
            raise ForageError(f"--{name.replace('_', '-')} is given twice; give it once.")
        found: str | bool | None = value
        if not given:
            if name in flags:
                found = True
            elif name.startswith("no_"):
                name, found = name[3:], "false"
            else:
                found = next(words, "")
        if isinstance(found, str) and (not found or (not given and found.startswith("--"))):
            if name in ABSENT_OPTIONS:
                raise ForageError(f"There is no option '--{hyphens(name)}': {ABSENT_OPTIONS[name]}")
            raise ForageError(f"--{name.replace('_', '-')} needs a value after it.")
        options[name] = [*many(options, name), str(found)] if name in lists else found  # pyrefly: ignore[unsupported-operation]
    return positional, options


def hyphens(name: str) -> str:
    """Return an option's name as it is printed; underscores are taken as well."""
    return name.replace("_", "-")


def many(words: Words, name: str) -> list[str]:
    """Return the values of an option that may be repeated."""
    found = words.get(name, [])
    return found if isinstance(found, list) else [str(found)]


def whole_number(text: str) -> int:
    """`500k`, `5M`, `1e6`, `20_000` or `500`."""
    scale = {"k": 1_000, "m": 1_000_000, "b": 1_000_000_000}.get(text[-1:].lower(), 1)
    value = float(text[:-1] if scale > 1 else text) * scale
    if value != int(value):
        raise ValueError(text)
    return int(value)


def whole(name: str, value: Any) -> int:
    """Return a whole number as it is given in Python: `500_000`, `5e5` or `"500k"`. Raise `ForageError` for others."""
    try:
        number = whole_number(value) if isinstance(value, str) else int(value)
        if isinstance(value, str) or (number == value and not isinstance(value, bool)):
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise ForageError(f"{name} is a whole number such as 500_000 or '500k', not {value!r}.")


def parse(name: str, text: Word, wanted: Any) -> Any:
    """`text` as the type `wanted`: bool, int, float, str, tuples of these, or any of these or None."""
    text = str(text)
    shown = "--" + name.replace("_", "-")
    origin = typing.get_origin(wanted)
    if origin in (types.UnionType, typing.Union):
        if text.lower() == "none":
            return None
        return parse(name, text, next(a for a in typing.get_args(wanted) if a is not types.NoneType))
    if origin in (tuple, Sequence):
        inner = typing.get_args(wanted)[0]
        parts = [part.strip() for part in text.strip("()[]").split(",") if part.strip()]
        try:
            return tuple(parse(name, part, inner) for part in parts)
        except ForageError:
            if inner not in LISTED:
                raise
            raise ForageError(f"{shown} is {LISTED[inner]}, not {text!r}.") from None
    try:
        if wanted is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]
        if wanted is int:
            return whole_number(text)
        if wanted is float:
            return float(text)
    except (ValueError, KeyError, OverflowError):
        kind = {bool: "true or false", int: "a whole number such as 500k", float: "a number"}[wanted]
        raise ForageError(f"{shown} is {kind}, not {text!r}.") from None
    if wanted is str:
        return text
    raise ForageError(f"{shown} cannot be given on the command line; use Python for it.")


def check_actions(evaluation_actions: str) -> None:
    """Raise `ForageError` for a way to act in evaluation that is not there."""
    if evaluation_actions not in (AUTO, *ACTIONS):
        raise ForageError(f"Actions in evaluation are {AUTO}, {' or '.join(ACTIONS)}, not {evaluation_actions!r}.")


def guess(text: Word) -> Any:
    """Return the value of a text for an option of an environment, whose type is unknown at this point.

    A number, a truth value or `none`; `a,b` is a list of these, and a text that starts with a bracket or a quote is as
    in Python, or JSON for a brace, so that `'a,b'` and `'none'`, with the quotes, are texts. Any other text is itself.
    """
    text = str(text)
    known = {"true": True, "false": False, "none": None}
    if text.lower() in known:
        return known[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if text[:1] in ("[", "(", "{", "'", '"'):
        with contextlib.suppress(ValueError, SyntaxError):
            return ast.literal_eval(text)
    if text[:1] == "{":
        with contextlib.suppress(ValueError):
            return json.loads(text)
    if text[:1] + text[-1:] in ("[]", "()"):
        found = [guess(part.strip()) for part in text[1:-1].split(",") if part.strip()]
        return found if text[0] == "[" else tuple(found)
    if "," in text:
        return [guess(part.strip()) for part in text.split(",") if part.strip()]
    return text


def fill(words: Words, fields: list[Field], prefix: str, owner: str) -> dict[str, Any]:
    """Take the options that set `fields` out of `words`; raise `ForageError` for those with the prefix that set none.

    Without a prefix, what is not a field stays in `words` for somebody else.
    """
    known = {field.name: field for field in fields}
    values = {}
    for word in list(words):
        if prefix and not word.startswith(prefix + "."):
            continue
        name = word[len(prefix) + 1 :] if prefix else word
        if name in known:
            text = str(words.pop(word))
            is_own = ":" in text and float in (known[name].type, *typing.get_args(known[name].type))
            values[name] = text if is_own else parse(word, text, known[name].type)  # a schedule, in words
        elif prefix:
            former.check_option(f"--{hyphens(word)}", {f"--{prefix}.{field}" for field in known}, owner)
            raise ForageError(f"{owner} has no option {hyphens(name)!r}{nearest(name, map(hyphens, known))}")
    return values


def columns() -> int:
    """Return the number of columns to fill: the terminal's, 120 at most."""
    import shutil

    return min(120, shutil.get_terminal_size((100, 24)).columns)


def fill_columns(left: str, text: str) -> str:
    """Return text in whole words, wrapped to the terminal, with `left` before its first line."""
    return textwrap.fill(
        text, columns(), initial_indent=left + " ", subsequent_indent=" " * (len(left) + 1), break_on_hyphens=False
    )
