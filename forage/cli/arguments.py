"""Options that several commands share. Loads no JAX."""

from __future__ import annotations

import functools
import re
from typing import Any

from forage.config import former, options, part_options, registry
from forage.config.options import OPTIONS, PORTS, READING, READING_NAMES
from forage.config.registry import PartChoice
from forage.config.reward_functions import names_functions
from forage.core.errors import ForageError, nearest

LISTS = {"wrap", "grid", "under", "over"}  # may be given more than once
FLAGS = {option.word or option.name for option in (*OPTIONS, *READING) if option.flag} | {
    *(
        "quiet",
        "json",
        "plain",
        "help",
        "anyway",
        "film",
        "problem",
        "sample",
        "private",
        "all",
        "narrow",
        "reverse",
        "until_decided",
        "peft",
    )
}


def say(data: dict[str, Any]) -> None:
    """Print a result as a line of JSON, for `--json`."""
    from forage.runs.display import print_json as print_line

    print_line(data)


def named_options(text: str) -> dict[str, tuple[str, str]]:
    """Return the options in a help text, each with the name of its value and its meaning."""
    found: dict[str, tuple[str, str]] = {}
    for names, meaning in re.findall(r"^  (--[a-z].*?)  +(\S.*)$", text, re.MULTILINE):
        value = re.sub(r"--[a-z][a-z.-]*|,", "", names).strip()
        for name in re.findall(r"--([a-z][a-z-]*)(?![\w.-])", names):
            found[name] = (value, meaning)
    return found


def take_options(words: options.Words, *names: str) -> dict[str, Any]:
    """Take options of a training out of the words, all or those of these names. Return their values by name."""
    found: dict[str, Any] = {}
    readers = {"seeds": seeds, "sweep": sweep, "wrap": wrappers}
    for word in words.keys() - set(options.WORDS):
        former.check_option(f"--{options.hyphens(word)}", [f"--{one}" for one in options.WORDS], "a training")
    if not names or "display" in names:
        found["display"] = display(words)
    if not names or "environment_options" in names:
        found["environment_options"] = environment_options(words)
    for option in OPTIONS:
        word = option.word or option.name
        if word in words and option.in_words and option.name not in PORTS and (not names or option.name in names):
            take = readers.get(option.name, functools.partial(one_value, wanted=option.type))
            found[option.name] = take(words, word)
    return found


def reading_words(words: options.Words) -> dict[str, Any]:
    """Take the options that say how a file is read out of the words."""
    flags = {option.name for option in READING if option.flag}
    return {
        name: options.parse(name, words.pop(name), bool if name in flags else str)
        for name in READING_NAMES
        if name in words
    }


def one_value(words: options.Words, option: str, wanted: Any) -> Any:
    """Take out the value of an option, of the type `wanted`."""
    return options.parse(option, words.pop(option), wanted)


def sweep(words: options.Words, option: str) -> dict[str, tuple[float, ...]]:
    """Take out the number to sweep and its values: `learning-rate=1e-4,1e-3`."""
    name, _, values = str(words.pop(option)).partition("=")
    return {name.replace("-", "_"): options.parse(option, values, tuple[float, ...])}


SENTENCES = ("system",)
"""Options of environments that are texts as they stand, with commas and numbers in them."""


def environment_options(words: options.Words) -> dict[str, Any]:
    """Take out the options of the environment, `--env.OPTION VALUE`."""
    given = {word[4:]: words.pop(word) for word in list(words) if word.startswith("env.")}
    return {name: str(value) if name in SENTENCES else options.guess(value) for name, value in given.items()}


def port_choice(port: str, words: options.Words, base: PartChoice | None = None) -> PartChoice | None:
    """Return the part that `--port NAME --port.option value` choose, or `None`. Without a name, the options change
    `base`.
    """
    given = [word for word in words if word.startswith(port + ".")]
    if port not in words and not given:
        return None
    if port not in words and base is None:
        name = given[0].replace("_", "-")
        raise ForageError(f"--{name} needs --{port} NAME too, as in --{port} {next(iter(registry.PORTS[port]))}.")
    choice = registry.choose_part(port, str(words.pop(port))) if port in words else base
    assert choice is not None
    return choice.with_options(options.fill(words, part_options.fields(choice.cls), port, choice.name))


def part_or_functions(port: str, words: options.Words, base: Any = None) -> PartChoice | str | None:
    """Return the part that options choose, as `port_choice` does, or the names of reward functions as they are."""
    if port != "rewards" or not names_functions(str(words.get(port, ""))):
        return port_choice(port, words, base if isinstance(base, PartChoice) else None)
    if given := next((word for word in words if word.startswith(f"{port}.")), ""):
        raise ForageError(f"Reward functions have no options, and --{options.hyphens(given)} is one of a part.")
    return str(words.pop(port))


def seeds(words: options.Words, option: str = "seeds") -> int | tuple[int, ...]:
    """Take out the number of seeds or a list of them: `5`, or `0,1,2`, or `3,` for seed 3 alone."""
    text = str(words.pop(option))
    try:
        return options.parse(option, text, tuple[int, ...] if "," in text else int)
    except ForageError:
        raise ForageError(
            f"--{option} is how many, such as 5, or which, such as 0,1,2 or 3, for number 3 alone; not {text!r}."
        ) from None


def wrappers(words: options.Words, option: str) -> list[str]:
    """Return the values of `--wrap NAME:VALUE ...`. Raise `ForageError` at once for an unknown name."""
    given = options.many(words, option)
    words.pop(option, None)
    for wrapper in given:
        registry.check_wrapper(wrapper.partition(":")[0])
    return given


def checkpoint_of(words: options.Words) -> str | int | None:
    """Return the requested checkpoint: `best`, a step or none."""
    if "checkpoint" not in words:
        return None
    text = str(words.pop("checkpoint"))
    return text if text == "best" else options.parse("checkpoint", text, int)


def display(words: options.Words) -> str:
    """Return the requested display. Raise `ForageError` if there are two."""
    asked = [kind for kind in ("quiet", "json", "plain") if words.pop(kind, False)]
    if len(asked) > 1:
        raise ForageError(f"--{asked[0]} and --{asked[1]} are two ways to show a run; give one of them.")
    return asked[0] if asked else "auto"


def one_run(positional: list[str], command: str) -> str:
    """Return the only positional argument, a run's directory."""
    if len(positional) != 1:
        raise ForageError(f"forage {command} takes one run's directory: forage {command} runs/NAME.")
    return positional[0]


def nothing_left(words: options.Words, command: str, known: list[str]) -> None:
    """Raise `ForageError` if an unknown option is left."""
    if words:
        unknown = options.hyphens(next(iter(words)))
        raise ForageError(f"forage {command} has no option '--{unknown}'{nearest(unknown, known, '--')}")
