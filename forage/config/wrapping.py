"""Wrappers by name: from words such as `frame-stack:4` to an environment with that around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forage.config import options, registry
from forage.config.options import hyphens
from forage.core.errors import nearest
from forage.core.ports import Environment
from forage.core.types import ForageError


def wrap(environment: Environment, given: Sequence[str]) -> Environment:
    """Put the named wrappers around an environment, the first innermost.

    Each is `name`, `name:value:value` (its options in order) or `name:option=value`, in any mixture:
    `time-limit:200`, `masked:0,2`, `delay:observation-delay=2`.
    Raise `ForageError` for an unknown name or option, and for a wrapper that does not fit the environment.
    """
    for words in given:
        name, _, _ = words.partition(":")
        cls = registry.wrapper_class(name)
        environment = cls(environment, **arguments(words))
    return environment


def arguments(words: str) -> dict[str, Any]:
    """Return the options that `name:value:option=value` gives, typed by the wrapper's fields."""
    name, *values = words.split(":")
    fields = registry.wrapper_fields(registry.wrapper_class(name))
    known = {field.name: field for field in fields}
    result: dict[str, Any] = {}
    for number, text in enumerate(values):
        option, given, value = text.partition("=")
        option = option.replace("-", "_")
        if not given:
            if number >= len(fields):
                raise ForageError(
                    f"{name} has {len(fields)} option{'' if len(fields) == 1 else 's'}, and {words} gives {len(values)}"
                    f". Available: {', '.join(known)}."
                )
            option, value = fields[number].name, text
        if option not in known:
            raise ForageError(f"{name} has no option {hyphens(option)!r}{nearest(option, map(hyphens, known))}")
        if option in result:
            raise ForageError(f"{words} gives {hyphens(option)} twice; give it once.")
        result[option] = options.parse(f"wrap {name}:{option}", value, known[option].type)
    missing = [field for field in fields if field.required and field.name not in result]
    if missing:
        shown = missing[0].name.replace("_", "-")
        raise ForageError(f"{name} needs {shown}, as in --wrap {name}:VALUE; forage show {name} explains it.")
    return result


def innermost(environment: Environment, given: Sequence[str]) -> Environment:
    """Put wrappers directly around the environment, within all wrappers that it has, to change the world itself.

    Observations and actions must keep their spaces. Raise `ForageError` if a wrapper changes them.
    """
    from forage.environments.wrappers.base import Wrapper

    if isinstance(environment, Wrapper):
        import equinox

        inside = innermost(environment.environment, given)
        return equinox.tree_at(lambda tree: tree.environment, environment, inside)
    wrapped = wrap(environment, given)
    for space in ("observation_space", "action_space"):
        if getattr(wrapped, space) != getattr(environment, space):
            raise ForageError(
                f"{given[-1]} changes what is seen or done, and a trained agent can only be played in what it knows; "
                f"action-noise, observation-noise or delay, for example, leave both as they are."
            )
    return wrapped
