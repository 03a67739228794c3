"""The base of all parts, and the value estimates that parts may ask the agent for."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox
from jaxtyping import Array, Float

from forage.core.errors import ForageError
from forage.core.ports.needs import Choices, Needs, Unused

State = Any
Metrics = dict[str, Array]


class Part(equinox.Module):
    """Anything that plugs into a port."""

    example: ClassVar[str] = ""
    """A command that uses the part, or an explanation of its use if there is no such command."""

    own_choices: ClassVar[str] = ""
    """The numbers and rules of it that are Forage's and not its paper's, as a phrase, where those are unknown."""

    needs: ClassVar[Needs] = Needs()
    """Its needs of the environment and of the agent, in addition to those of its base classes; a property where they
    depend on options.
    """

    choices: ClassVar[Choices] = {}
    """The words that its options may be, by name, in addition to those of its base classes."""

    unused: ClassVar[Unused] = {}
    """Inherited options that have no effect on it and stay at their defaults, each group with the reason."""

    def __check_init__(self) -> None:
        """Raise `ForageError` for an option that is none of its `choices`, or that is `unused`."""
        for _, option, words in declarations(type(self), "choices"):
            value = getattr(self, option)
            if value is not None and not (isinstance(value, str) and value in words):
                raise ForageError(f"{option} of {type(self).__name__} is one of {', '.join(words)}, not {value!r}.")
        for base, options, reason in declarations(type(self), "unused"):
            why, other = (reason, "") if isinstance(reason, str) else (reason[0], f", or {reason[1]}")
            usual = {option: base.__dataclass_fields__[option].default for option in options.split()}
            if changed := [option for option in usual if differs(getattr(self, option), usual[option])]:
                raise ForageError(f"{why}; leave {' and '.join(changed)} out{other}.")

    @classmethod
    def translate_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Translate the options of a stored run to those of today, such as an option that was renamed."""
        return options


@functools.cache
def declarations(cls: type, table: str) -> tuple[tuple[Any, Any, Any], ...]:
    """Return the entries of a class's table and of those of its bases: the class that has it, the key and the value."""
    found = [(base, vars(base).get(table)) for base in cls.__mro__]
    entries = [(base, *item) for base, own in found if isinstance(own, Mapping) for item in own.items()]
    for base, options, _ in entries:
        if wrong := [option for option in options.split() if option not in base.__dataclass_fields__]:
            raise ForageError(f"{table} of {base.__name__} names {wrong[0]}, which is no option of it.")
    return tuple(entries)


def differs(value: Any, usual: Any) -> bool:
    """Return whether an option is not at its default; of a traced number that is unknown, and it is taken for it."""
    return not isinstance(value, Array) and value is not usual and value != usual


class ValueEstimates(NamedTuple):
    """An agent's value estimates of a rollout, before it learns from it, for the rewards that it learns from."""

    value: Float[Array, "time env"]  # of each observation
    advantage: Float[Array, "time env"]  # of each action, as the agent estimates advantages
    td_error: Float[Array, "time env"]  # r + discount * value of the next observation - value
    log_probability: Float[Array, "time env"]  # of each action
