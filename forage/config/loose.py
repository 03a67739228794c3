"""Options of an agent among the arguments of a Python call: `forage.train("ppo", ..., learning_rate=1e-3)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forage.config import former, registry
from forage.config.options import ARGUMENTS
from forage.core.elsewhere import ABSENT_IN_TRAINING
from forage.core.errors import ForageError, nearest
from forage.core.fields import layers, numeric_fields
from forage.core.ports import Agent, Environment, Part


def with_loose(
    agent: Agent | str,
    options: Mapping[str, Any],
    loose: Mapping[str, Any],
    name: str,
    environment: Any,
    parts: Mapping[str, Part | None],
) -> dict[str, Any]:
    """Return the agent's options together with those in `loose`.

    Raise `ForageError` for an option that the agent lacks, or that the environment called `name` or one of the `parts`
    has too.
    """
    known = {field.name for field in registry.fields(class_of(agent))}
    shown = registry.short_name(agent) if isinstance(agent, Agent) else agent
    inside = layers(environment) if isinstance(environment, Environment) else []
    numbers = {word for layer in inside for word in numeric_fields(layer)}
    for word in loose:
        elsewhere = [f"environment_options={{{word!r}: ...}}"] if word in numbers else []
        for port, part in parts.items():
            if part is not None and word in {field.name for field in registry.fields(type(part))}:
                elsewhere.append(f"{port}={type(part).__name__}({word}=...)")
        if word not in known and not elsewhere:
            raise unknown(word, agent, known)
        if elsewhere:
            both = f"{shown} has an option {word!r}, and so has something else; say" if word in known else None
            others = ["agent_options={" + repr(word) + ": ...}"] if both else []
            raise ForageError(f"{both or f'{word!r} is no option of {shown}; say'} {' or '.join(others + elsewhere)}.")
        if word in options:
            raise ForageError(f"{word} is given twice, in agent_options and beside it; give it once.")
        if isinstance(agent, Agent):
            made = type(agent).__name__
            raise ForageError(f"An agent that is an object has its own {word}; say it there: {made}({word}=...).")
    return dict(options) | dict(loose)


def unknown(word: str, agent: Any, known: Iterable[str]) -> ForageError:
    """Return the error for a word that neither `forage.train` nor the agent knows."""
    if word in ABSENT_IN_TRAINING:
        return ForageError(f"forage.train has no option {word!r}: {ABSENT_IN_TRAINING[word]}")
    if agent is None:
        return ForageError(f"forage.train has no option {word!r}{nearest(word, [*known, *ARGUMENTS])}")
    name = agent if isinstance(agent, str) else registry.short_name(agent)
    former.check_option(word, list(known), name)
    return ForageError(f"Neither forage.train nor {name} has an option {word!r}{nearest(word, [*known, *ARGUMENTS])}")


def class_of(agent: Agent | str) -> type:
    """Return the class of an agent, given as an object or a name."""
    return registry.part_class("agent", agent) if isinstance(agent, str) else type(agent)
