"""Helpers for behaviours that set the temperature of a language model."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxtyping import Array, PyTree

from forage.core.ports import ActContext, Decision, HiddenState


def written_at(temperature: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
    """Return the agent's own answer at a temperature, of the whole answer or of each of its tokens.

    The agent keeps the temperature with the answer, and scores the answer with it when it learns.
    """
    replaced: dict[str, Any] = {"temperature": temperature}
    agent = dataclasses.replace(moment.agent, **replaced)  # type: ignore[type-var]
    action, memory, policy_info = moment._replace(agent=agent).own(hidden.agent, observation, moment.key)
    return Decision(action, hidden._replace(agent=memory), policy_info)
