"""A run's settings from a file: the config.json that a run writes, or the same words in TOML or YAML."""

from __future__ import annotations

import os
import tomllib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from forage.config import former, part_data, part_options, registry
from forage.config.options import OPTIONS, PORTS
from forage.config.ranges import check_kinds
from forage.config.registry import PartChoice
from forage.config.reward_functions import names_functions
from forage.core import records
from forage.core.elsewhere import ours
from forage.core.errors import ForageError, nearest
from forage.environments.plain import from_plain

KINDS: dict[str, Any] = {option.name: option.type for option in OPTIONS if option.in_file and option.type is not Any}
"""The types of settings by name, without the agent, the environment and the parts."""
ABOUT = (
    "spec",
    "devices_per_seed",
    "history",
    "parent",
    "imported",
)  # what a run writes of itself, and no one asks for


def read_arguments(file: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of `forage.train` in a file. Raise `ForageError` if it has other content."""
    path = Path(file)
    return arguments_of(str(path), read_file(path))


def read_file(path: Path) -> dict[str, Any]:
    """Return the content of a file, by its suffix: JSON, TOML or YAML."""
    kind = path.suffix.lower()
    if path.is_dir():
        raise ForageError(f"{path} is a directory; the settings of a run are in its file config.json.")
    if kind not in (".json", ".toml", ".yaml", ".yml"):
        raise ForageError(f"{path} does not say what it is: its name ends with .json, .toml, .yaml or .yml.")
    try:
        text = path.read_text("utf-8-sig")  # with or without the mark that some editors write first
        if kind == ".json":
            found = records.parse_json(text)
        elif kind == ".toml":
            found = tomllib.loads(text)
        else:
            found = read_yaml(path, text)
    except OSError as error:
        raise ForageError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise ForageError(f"{path} is not {kind[1:].upper()}: {str(error).rstrip('.')}.") from None
    if not isinstance(found, dict):
        raise ForageError(f'{path} holds no settings by name, such as environment = "CartPole-v1".')
    return found


def read_yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ForageError(
            f"Reading {path} takes pyyaml: pip install 'forage-rl[yaml]'; JSON and TOML take nothing."
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValueError(f"{getattr(error, 'problem', None) or error}{at}") from None


def arguments_of(where: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `forage.train` that a configuration stands for. `where` it is from, for sentences."""
    known = ["agent", "environment", *PORTS, *KINDS]
    found: dict[str, Any] = {}
    for name, value in config.items():
        name = former.today(name.replace("-", "_"), known) or name.replace("-", "_")
        if name in ABOUT or value is None:
            continue
        if name not in known:
            raise ForageError(f"{where} has {name!r}, which is no setting of a run{or_of_agent(name, config, known)}")
        found[name] = value
    check_kinds(found, KINDS, where)
    if "devices_per_seed" in config:  # how a run was spread over the machine that it was made on
        found.pop("devices", None)
        found.pop("mesh", None)
    if "environment" in found:
        found |= environment_of(where, found.pop("environment"))
    for port in ("agent", *PORTS):
        if port in found:
            names = found[port]
            several = isinstance(names, list) and all(":" in str(one) for one in names)
            if port == "rewards" and (several or (isinstance(names, str) and names_functions(names))):
                continue
            found[port] = choice_of(where, port, names)
    return found


def or_of_agent(name: str, config: dict[str, Any], known: list[str]) -> str:
    """Return the end of a sentence about an unknown setting: that it is the agent's, or a similar name."""
    agent = config.get("agent")
    agent = agent.get("part") if isinstance(agent, dict) else agent
    if agent and registry.target_of("agent", agent):
        fields = [field.name for field in part_options.fields(registry.part_class("agent", agent))]
        if own := name if name in fields else next(iter(ours(name, {field: field for field in fields})), ""):
            return f'; it is an option of the agent, as in agent = {{part = "{agent}", {own} = ...}}.'
    return nearest(name, known)


def environment_of(where: str, stored: Any) -> dict[str, Any]:
    """Return the arguments that an environment stands for: its id, or a table of `id`, `options` and `wrap`."""
    if isinstance(stored, str):
        stored = {"id": stored}
    if not isinstance(stored, dict) or not isinstance(stored.get("id"), str):
        made = f"a Python object, {stored['object']}" if isinstance(stored, dict) and "object" in stored else stored
        raise ForageError(f"The environment in {where} is {made}; name one, by its id or in Python as an object.")
    if unknown := sorted(stored.keys() - {"id", "options", "wrap", "logged", "evaluates"}):
        raise ForageError(
            f"The environment in {where} has {unknown[0]!r}{nearest(unknown[0], ['id', 'options', 'wrap'])}"
        )
    check_kinds(stored, {"options": Mapping[str, Any] | None, "wrap": Sequence[str]}, f"the environment in {where}")
    return {
        "environment": stored["id"],
        "environment_options": from_plain(stored.get("options")),
        "wrap": list(stored.get("wrap", ())),
    }


def choice_of(where: str, port: str, stored: Any) -> PartChoice:
    """Return the choice of a part in a file: it is its name, or a table of `part` and options."""
    if isinstance(stored, str):
        return registry.choose_part(port, stored)
    if not isinstance(stored, dict) or not isinstance(stored.get("part"), str):
        raise ForageError(f"{port} in {where} is a name, or a table with `part`, its name; not {stored!r}.")
    name = part_data.stored_name(stored)
    choice = registry.choose_part(port, name)
    known = {field.name: field for field in part_options.fields(choice.cls)}
    options: dict[str, Any] = {}
    for key, value in former.with_today(stored, known).items():
        key = key.replace("-", "_")
        if key not in ("part", part_data.ORIGIN):
            registry.check_options(name, [key], known)
            if value == "none" and NoneType in typing.get_args(known[key].type):  # TOML has no null
                value = None
            value, usual = part_data.rebuild_value(value, f"{name}'s {key}"), known[key].default
            options[key] = float(value) if isinstance(usual, float) and type(value) is int else value
    types = {name: field.type for name, field in known.items()}
    check_kinds({key: value for key, value in options.items() if ":" not in str(value)}, types, f"{name} in {where}")
    # An agent with all its fields is of a run's file. Missing options take the defaults that suit the environment.
    return choice.with_options(options)._replace(is_complete=known.keys() <= options.keys())


def merge_over(where: str, base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a file or a run with those that were given over them.

    An agent of the same name keeps the options that were not given. Raise `ForageError` for another one, whose memory
    and behaviour would not be those of the file.
    """
    base, given = dict(base), {name: value for name, value in given.items() if value is not None}
    if "data" in given:
        base.pop("memory", None)
    if "environment" in given:
        base = {name: value for name, value in base.items() if name not in ("environment_options", "wrap")}
    for name in ("environment_options", "agent_options"):
        if name in base and name in given:
            given[name] = base[name] | given[name]
    agent, own = given.get("agent"), base.get("agent")
    if own is not None and isinstance(agent, str | PartChoice | None):
        name = own.name if agent is None else agent if isinstance(agent, str) else agent.name
        if name != own.name:
            raise ForageError(f"{where} has the agent {own.name} and its parts; leave out {name}, or {where}.")
        options = agent.options if isinstance(agent, PartChoice) else {}
        given["agent"] = own.with_options(options | given.pop("agent_options", {}))
    return base | given
