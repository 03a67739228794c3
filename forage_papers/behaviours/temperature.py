"""Helpers for behaviours that set the temperature of a language model."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxtyping import Array, PyTree

from forage.core.ports import ActContext, Agent, Decision, HiddenState
from forage.core.spaces import Tokens
from forage.core.types import ForageError, Spec


def check_temperature(what: str, agent: Agent, spec: Spec) -> None:
    """Raise `ForageError` for an agent that does not write text at a temperature."""
    if not (isinstance(spec.action_space, Tokens) and hasattr(agent, "temperature")):
        raise ForageError(
            f"{what} sets the temperature at which text is written, and {type(agent).__name__} in {spec.name} writes "
            f"none; use an agent of language, such as grpo in text:addition."
        )


def written_at(temperature: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
    """Return the agent's own answer at a temperature, of the whole answer or of each of its tokens.

    The agent keeps the temperature with the answer, and scores the answer with it when it learns.
    """
    replaced: dict[str, Any] = {"temperature": temperature}
    agent = dataclasses.replace(moment.agent, **replaced)  # type: ignore[type-var]
    action, memory, aux = moment._replace(agent=agent).own(hidden.agent, observation, moment.key)
    return Decision(action, hidden._replace(agent=memory), aux)
