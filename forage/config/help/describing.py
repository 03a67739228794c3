"""Help on the named agent and environment: their options, and those of the parts at the ports."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from forage.config import options, part_options, registry
from forage.config.help import declared
from forage.config.help.outlines import USUAL, arguments_of, class_to_describe, outline, part_to_describe
from forage.config.options import columns, hyphens
from forage.config.ranges import range_words
from forage.core.ranges import declared_range
from forage.core.settings import Setting

LEFT = 42  # columns for an option and its default


def option_lines(cls: type, prefix: str = "") -> Iterator[str]:
    """Yield a line for each option of a part: its name, default, meaning and range."""
    for field in part_options.fields(cls):
        allowed = range_words(cls, field.name)
        meaning = f"{field.help} ({allowed})" if allowed else field.help
        default = "required" if field.required else field.default
        yield from option_line(f"--{prefix}{hyphens(field.name)}", default, meaning)


def own_lines(cls: type) -> list[str]:
    """Return the lines about the numbers and rules of a part that are Forage's and not its paper's, if it has any."""
    own = vars(cls).get("own_choices")
    return ["", options.fill_columns("Forage's, not the paper's:", own), ""] if own else []


def option_line(option: str, default: Any, meaning: str) -> list[str]:
    """Return an option with its default and meaning, the meaning wrapped to the terminal."""
    left = f"  {option:28} {default!s:10} "
    width = max(40, columns() - LEFT)
    first, *more = textwrap.wrap(meaning, width) or [""]
    lines = [left + first] if len(left) <= LEFT or not first else [left.rstrip(), " " * LEFT + first]
    return [lines[0].rstrip(), *lines[1:], *(" " * LEFT + line for line in more)]


def native_options(name: str) -> Iterator[tuple[str, Any, str]] | None:
    """Return the name, value and meaning of each option of a native environment, without importing it.

    `None` for other environments, and for those that have to be imported.
    """
    from forage.environments.catalogue import native_entry, native_id

    if (native := native_id(name)) is None:
        return None
    entry = native_entry(native)
    given, target = entry.fields, f"forage.environments.{entry.target}"
    if (arguments := arguments_of(target)) is not None:
        return ((option, value, "") for option, value in (arguments | dict(given)).items())
    cls = outline(target)
    if cls is None or hasattr(cls, "__post_init__"):
        return None  # what it computes from options is shown as an option's value
    fields = part_options.fields(cls)
    return ((field.name, given.get(field.name, field.default), field_meaning(cls, field)) for field in fields)


def field_meaning(cls: type, field: part_options.Field) -> str:
    """Return the meaning of an environment's field, with the range that its class declares."""
    allowed = declared_range(cls, field.name)
    return (f"{field.help} ({allowed.words()})" if allowed else field.help).strip()


def environment_lines(name: str) -> Iterator[str]:
    """Yield a line for each option of an environment; raise `ForageError` if there is no such environment."""
    if (native := native_options(name)) is not None:
        for option, value, meaning in native:
            yield from option_line(f"--env.{hyphens(option)}", value, meaning)
        return
    from forage.environments import make
    from forage.environments.registry import maker_of

    made: Any = make(name)
    while hasattr(made, "environment"):
        made = made.environment
    if maker := maker_of(name):
        for option, value in maker[1].items():
            yield from option_line(f"--env.{hyphens(option)}", value, "")
    elif part_options.is_a(type(made), "Environment"):
        for field in part_options.fields(type(made)):
            meaning = field_meaning(type(made), field)
            yield from option_line(f"--env.{hyphens(field.name)}", getattr(made, field.name), meaning)
    elif getattr(made, "id", "").startswith("text:"):
        from forage.environments.text.environment import TextEnvironment

        meanings = argument_meanings(TextEnvironment)
        for parameter in inspect.signature(TextEnvironment).parameters.values():
            if parameter.name in meanings and parameter.default is not inspect.Parameter.empty:
                default = parameter.default if parameter.default not in ((), "") else "none"
                yield from option_line(f"--env.{hyphens(parameter.name)}", default, meanings[parameter.name])
    elif getattr(made, "id", "").startswith("gymnasium:"):
        from forage.environments.adapters.gymnasium.make import OURS, options_of

        for option in dict.fromkeys((*sorted(options_of(made.id.partition(":")[2])), *OURS)):
            yield from option_line(f"--env.{hyphens(option)}", "", "")


def argument_meanings(cls: type) -> dict[str, str]:
    """Return the meaning of each argument that a constructor's docstring explains below `Args:`."""
    text = inspect.cleandoc(vars(cls)["__init__"].__doc__ or "").partition("Args:\n")[2]
    found = re.findall(r"^ +(\w+): (.+(?:\n {5,}.+)*)", text, re.MULTILINE)
    return {name: " ".join(meaning.split()) for name, meaning in found}


def ports() -> list[str]:
    """Return the ports of a run whose part can be chosen."""
    return [port for port in registry.PORTS if port != "agent"]


def training_help(command: str, positional: list[str], words: options.Words) -> str:
    """Return the help of `forage train` or `tune` about the agent, the environment and the ports that are named."""
    agent, environment = positional[0], positional[1] if len(positional) > 1 else None
    if command == "train" and environment is None and registry.target_of("agent", agent) is None:
        from forage.environments.catalogue import SUITES, native_id

        if native := native_id(agent):
            agent, environment = "", native
        elif ":" not in agent or agent.partition(":")[0].lower() in SUITES:
            from forage.environments import canonical_id

            agent, environment = "", canonical_id(agent)
    lines = [f"forage {command} {' '.join(word for word in (agent, environment or 'ENVIRONMENT') if word)} [OPTIONS]"]
    if agent:
        cls = part_to_describe("agent", agent)
        lines += ["", f"options of {agent}, each with its default", *option_lines(cls), *own_lines(cls)[:2]]
    if environment:
        lines += ["", f"options of {environment}", *environment_lines(environment)]
    lines += ["", "ports, each with its parts; --PORT NAME names one, --PORT.OPTION VALUE sets an option of it"]
    lines += [f"  --{port:12} {', '.join(registry.parts(port))}" for port in ports()]
    if agent and environment:
        lines += port_lines(agent, words)
    lines += ["", f"The options of every training: forage {command} --help. An agent's formula and paper: forage show"]
    return "\n".join(lines).rstrip() + f" {agent or 'ppo'}.\n"


def port_lines(agent: str, words: options.Words) -> Iterator[str]:
    """Yield the options of the part at each port: the named one, else the default."""
    usual = usual_names(agent)
    for port in ports():
        name = str(words[port]) if port in words else usual[port]
        lines = list(option_lines(part_to_describe(port, name), f"{port}."))
        if lines:
            why = "" if port in words else ", which is used unless another is named"
            yield from ("", f"options of --{port} {name}{why}", *lines)


def usual_names(agent: str) -> dict[str, str]:
    """Return the name of an agent's default part at each port."""
    cls: Any = part_to_describe("agent", agent)
    found = [getattr(cls, name) for name in USUAL]
    if any(not isinstance(one, str | bool) for one in found):  # properties, which follow from options
        from forage.config.defaults import usual_parts

        usual = usual_parts(registry.part_class("agent", agent)())
        return {port: registry.part_name(part) for port, part in usual.items()}
    behaviour, memory, starts, on_policy = found
    memory = memory or ("rollout" if on_policy else "uniform")
    names = {"behaviour": behaviour, "rewards": "environment", "memory": memory, "tasks": "same"}
    return names | {"starts": starts or "reset"}


def docstrings(cls: type) -> str:
    """Return the docstrings of a class and its module; of a named setting its own, and its options."""
    if row := part_options.setting_of(cls):
        return f"{cls.__doc__}\n\n{setting_words(row)}"
    loaded = sys.modules.get(cls.__module__)
    about = ast.get_docstring(declared.parse_module(cls.__module__)) if loaded is None else loaded.__doc__
    said = [inspect.cleandoc(text) for text in (about, cls.__doc__) if text]
    return "\n\n".join(dict.fromkeys(said))


def setting_words(row: Setting) -> str:
    """Return a sentence about the options of another part that a named setting changes."""
    known = {field.name for field in part_options.fields(class_to_describe(row.base))}
    ports = {f"usual_{port}": port for port in registry.PORTS}
    said = [f"--{hyphens(name)} {option_words(value)}" for name, value in row.defaults.items() if name in known]
    said += [f"--{ports[name]} {value}" for name, value in row.defaults.items() if name in ports]
    return f"It is {registry.name_of_target(row.base)} with {' '.join(said)}."


def option_words(value: Any) -> str:
    """Return a default as the command line takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
