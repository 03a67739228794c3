"""A run's settings from a file: the config.json that a run writes, or the same words in TOML or YAML."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forage.config import former, registry
from forage.config.kinds import check_kinds
from forage.config.options import OPTIONS, PORTS
from forage.core import records
from forage.core.elsewhere import ours
from forage.core.errors import ForageError, nearest
from forage.environments.plain import from_plain

KINDS: dict[str, Any] = {
    name: option.type
    for option in OPTIONS
    if option.in_file and option.type is not Any
    for name in (option.name, option.old)
    if name
}
"""The types of settings by name, without the agent, the environment and the parts."""
ABOUT = ("spec", "devices_per_seed", "history", "parent")  # what a run writes of itself, and no one asks for


def read_arguments(file: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of `forage.train` in a file. Raise `ForageError` if it has other content."""
    path = Path(file)
    return arguments_of(str(path), read(path))


def read(path: Path) -> dict[str, Any]:
    """Return the content of a file, by its suffix: JSON, TOML or YAML."""
    kind = path.suffix.lower()
    if path.is_dir():
        raise ForageError(f"{path} is a directory; the settings of a run are in its file config.json.")
    if kind not in (".json", ".toml", ".yaml", ".yml"):
        raise ForageError(f"{path} does not say what it is: its name ends with .json, .toml, .yaml or .yml.")
    try:
        text = path.read_text("utf-8-sig")  # with or without the mark that some editors write first
        if kind == ".json":
            found = records.parse(text)
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
        name = name.replace("-", "_")
        if name in ABOUT or value is None:
            continue
        if name not in known:
            raise ForageError(f"{where} has {name!r}, which is no setting of a run{or_of_agent(name, config, known)}")
        found[name] = value
    check_kinds(found, KINDS, where)
    if "devices_per_seed" in config:  # how a run was spread over the machine that it was made on
        found.pop("devices", None)
    if "environment" in found:
        found |= environment_of(where, found.pop("environment"))
    for port in PORTS:
        if port in found:
            found[port] = part_of(where, port, found[port])
    if "agent" in found:
        found |= agent_of(where, found.pop("agent"))
    return found


def or_of_agent(name: str, config: dict[str, Any], known: list[str]) -> str:
    """Return the end of a sentence about an unknown setting: that it is the agent's, or a similar name."""
    agent = config.get("agent")
    agent = agent.get("part") if isinstance(agent, dict) else agent
    if agent and registry.target_of("agent", agent):
        fields = [field.name for field in registry.fields(registry.part_class("agent", agent))]
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
    if unknown := sorted(stored.keys() - {"id", "options", "wrap"}):
        raise ForageError(
            f"The environment in {where} has {unknown[0]!r}{nearest(unknown[0], ['id', 'options', 'wrap'])}"
        )
    check_kinds(stored, {"options": Mapping[str, Any] | None, "wrap": Sequence[str]}, f"the environment in {where}")
    return {
        "environment": stored["id"],
        "environment_options": from_plain(stored.get("options")),
        "wrap": list(stored.get("wrap", ())),
    }


def named(where: str, port: str, stored: Any) -> tuple[str, dict[str, Any]]:
    """Return the name of a part and its options: it is its name, or a table of `part` and options."""
    if isinstance(stored, str):
        return stored, {}
    if not isinstance(stored, dict) or not isinstance(stored.get("part"), str):
        raise ForageError(f"{port} in {where} is a name, or a table with `part`, its name; not {stored!r}.")
    name = registry.stored_name(stored)
    defaults = {field.name: field.default for field in registry.fields(registry.part_class(port, name))}
    options: dict[str, Any] = {}
    for key, value in former.with_today(stored, defaults).items():
        key = key.replace("-", "_")
        if key not in ("part", registry.ORIGIN):
            value, usual = registry.rebuilt(value, f"{name}'s {key}"), defaults.get(key)
            options[key] = float(value) if isinstance(usual, float) and type(value) is int else value
    types = {field.name: field.type for field in registry.fields(registry.part_class(port, name))}
    check_kinds({key: value for key, value in options.items() if ":" not in str(value)}, types, f"{name} in {where}")
    return name, options


def part_of(where: str, port: str, stored: Any) -> Any:
    """Return a part of a port."""
    return registry.build(port, *named(where, port, stored))


def agent_of(where: str, stored: Any) -> dict[str, Any]:
    """Return the agent's name and options; the agent itself if all its fields are present, as in a run's file.

    Missing options take the defaults that suit the environment.
    """
    name, options = named(where, "agent", stored)
    fields = {field.name for field in registry.fields(registry.part_class("agent", name))}
    if fields <= options.keys():
        return {"agent": registry.build("agent", name, options)}
    return {"agent": name, "agent_options": options}


def upon(where: str, base: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a file with those that were given over them.

    An agent of the same name keeps the file's options but those that were given. Raise `ForageError` for another one,
    whose memory and behaviour would not be the file's.
    """
    given = {name: value for name, value in given.items() if value is not None}
    options = given.pop("agent_options", {})
    agent = given.get("agent")
    if isinstance(agent, str) and "agent" in base:
        own = base["agent"] if isinstance(base["agent"], str) else registry.part_name(base["agent"])
        if own != agent:
            raise ForageError(f"{where} has the agent {own} and its parts; leave out {agent}, or {where}.")
        del given["agent"]
    if "data" in given:
        base = {name: value for name, value in base.items() if name != "memory"}
    if "environment" in given:
        base = {name: value for name, value in base.items() if name not in ("environment_options", "wrap")}
    merged = base | given
    if "environment_options" in base and "environment_options" in given:
        merged["environment_options"] = base["environment_options"] | given["environment_options"]
    if "agent" in given:
        return merged | {"agent_options": options}
    if isinstance(merged.get("agent"), str | None):
        return merged | {"agent_options": base.get("agent_options", {}) | options}
    return merged | {"agent": with_options(merged["agent"], options), "agent_options": {}}


def with_options(agent: Any, options: dict[str, Any]) -> Any:
    """Return the same agent with other options."""
    every = {field.name: getattr(agent, field.name) for field in registry.fields(type(agent))}
    return registry.build("agent", registry.part_name(agent), every | options) if options else agent
