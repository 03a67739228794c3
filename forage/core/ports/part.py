"""The base of all parts, and the value estimates that parts may ask the agent for."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
from jaxtyping import Array, Float

State = Any
Metrics = dict[str, Array]


class Part(equinox.Module):
    """Anything that plugs into a port."""

    example: ClassVar[str] = ""
    """A command that uses the part, or an explanation of its use if there is no such command."""

    @classmethod
    def translate_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Translate the options of a stored run to those of today, such as an option that was renamed."""
        return options


class ValueEstimates(NamedTuple):
    """An agent's value estimates of a rollout, before it learns from it, for the rewards that it learns from."""

    value: Float[Array, "time env"]  # of each observation
    advantage: Float[Array, "time env"]  # of each action, as the agent estimates advantages
    td_error: Float[Array, "time env"]  # r + discount * value of the next observation - value
    log_probability: Float[Array, "time env"]  # of each action
