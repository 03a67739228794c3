"""The conversion of option values: schedules, and the user's own functions and classes."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

from forage.config.part_options import is_a
from forage.core.errors import ForageError

OWN = ("activation", "encoder", "optimiser", "augmentation", "progress")
"""Options that may hold a function or a class, in words `module:Name` or `file.py:Name`."""

FOLLOWS = ("Agent", "Behaviour", "Rewards", "Memory", "Tasks", "Starts")
"""Ports with parts whose numbers may follow a schedule."""

FIXED = {"start", "end", "fraction", "importance_exponent"}
"""Numbers that are part of a schedule already."""
AT_FIRST = ("initial_", "final_", "prior")
"""Prefixes of the names of numbers that are used once, or are part of a schedule already."""
DISTRIBUTION = "forage.tasks.distributions:Distribution"


def takes_schedule(cls: type, name: str) -> bool:
    """Return whether a field of a part may hold a schedule: a traced number that counts for as long as a run lasts."""
    asked = is_a(cls, "Behaviour") and getattr(cls, "on_host", False)
    if asked or not (any(is_a(cls, port) for port in FOLLOWS) or is_distribution(cls)):
        return False
    if name in FIXED or name.startswith(AT_FIRST) or name in getattr(cls, "unscheduled", ()):
        return False
    field = next((field for field in dataclasses.fields(cls) if field.name == name), None)
    if field is None or field.metadata.get("static", False):
        return False
    hint = typing.get_type_hints(cls).get(name)
    return hint is float or float in typing.get_args(hint)


def is_distribution(cls: type) -> bool:
    """Return whether a class is one of `forage.tasks.distributions`, from which tasks draw numbers."""
    return any(f"{base.__module__}:{base.__name__}" == DISTRIBUTION for base in cls.__mro__)


def resolve_words(cls: type, options: dict[str, Any]) -> dict[str, Any]:
    """Return options of a part with schedules, functions and classes in place of the words for them.

    Raises `ForageError` for a schedule where there can be none.
    """
    return {
        name: understood_part(value) if dataclasses.is_dataclass(value) else resolve_word(cls, name, value)
        for name, value in options.items()
    }


def resolve_word(cls: type, name: str, value: Any) -> Any:
    """Return the value for a field of a part, with names replaced by the functions, classes or schedules they mean."""
    if name in OWN and isinstance(value, str) and ":" in value:
        from forage.core.loading import load_named

        return load_named(value)
    if name in OWN and callable(value):
        return plain_name(value) or value
    words = isinstance(value, str) and ":" in value
    if not (words or callable(value)) or isinstance(value, type):
        return value
    fields = {field.name: field for field in dataclasses.fields(cls)}
    if name not in fields or not (isinstance(fields[name].default, float | None) or is_distribution(cls)):
        return value
    if takes_schedule(cls, name):
        return schedule_of(value)
    if typing.get_type_hints(cls).get(name) not in (float, float | None):
        return value
    raise ForageError(
        f"{name} of {cls.__name__} takes a number and no schedule: it counts at one moment of the run, or outside of "
        f"the agent's learning, or is part of a schedule already; forage show names the numbers that take one."
    )


def schedule_of(value: Any) -> Any:
    """Return the schedule that words, `module:function` or a function stand for."""
    from forage.core.ranges import FORMS
    from forage.core.schedule import Schedule

    if isinstance(value, Schedule):
        return value
    if not isinstance(value, str):
        return Schedule(value_target(value) or getattr(value, "__qualname__", repr(value)), value)
    if "." in value.partition(":")[0] or (value.partition(":")[0].strip() not in FORMS and looks_own(value)):
        from forage.core.loading import full_target, load_named

        return Schedule(full_target(value), load_named(value))
    return Schedule(value)


def looks_own(text: str) -> bool:
    """Return whether text names a function in a module, unlike a misspelt schedule, which has numbers after the
    colon.
    """
    return text.rpartition(":")[2].isidentifier()


def understood_part(part: Any) -> Any:
    """Return a part that was made in Python with its schedules in place of functions, parts within it likewise."""
    if not is_a(type(part), "Part"):
        return part
    changed = {}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, tuple) and any(is_a(type(item), "Part") for item in value):
            new: Any = tuple(understood_part(item) if is_a(type(item), "Part") else item for item in value)
            new = value if all(one is other for one, other in zip(new, value, strict=True)) else new
        else:
            new = understood_part(value) if is_a(type(value), "Part") else resolve_word(type(part), field.name, value)
        if new is not value:
            changed[field.name] = new
    return dataclasses.replace(part, **changed) if changed else part


def plain(value: Any) -> Any:
    """Return a schedule, function or class as plain data, if it can be found again, or else a description of it."""
    from forage.core.schedule import Schedule

    if isinstance(value, Schedule):
        if value.function is None or value_target(value.function):
            return {"schedule": value.words if value.function is None else value_target(value.function)}
        return {"object": str(value)[:200], "last": value.values()[-1]}
    return value_target(value) or {"object": repr(value)[:200]}


def at_last(config: dict[str, Any]) -> dict[str, Any]:
    """Return a part's plain data with its last number in place of a schedule that cannot be made again."""
    return {key: value.get("last", value) if isinstance(value, dict) else value for key, value in config.items()}


def value_target(value: Any) -> str | None:
    """Return the `module:Name` that finds a function or class again in any process, if there is one."""
    from forage.core.loading import full_target, target_name

    if not callable(value) or not hasattr(value, "__qualname__"):
        return None
    found = target_name(value)
    return full_target(found) if found else None


def plain_name(value: Any) -> str | None:
    """Return the name of a function of `jax.nn` or Optax; options accept it too."""
    import jax
    import optax

    name = getattr(value, "__name__", "")
    return name if name and value in (getattr(jax.nn, name, None), getattr(optax, name, None)) else None
