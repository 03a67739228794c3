"""Checks of an agent and its environment that several behaviours share."""

from __future__ import annotations

import gymnasium

from forage.core import spaces
from forage.core.ports import Agent
from forage.core.spaces import Tokens
from forage.core.types import ForageError, Spec


def check_choices(what: str, agent: Agent, spec: Spec) -> None:
    """Raise `ForageError` unless actions are choices, and the agent learns from those that it did not make."""
    space = spec.action_space
    if not isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete):
        raise ForageError(
            f"{what[0].upper()}{what[1:]} draws among finitely many actions, and {spec.name} has "
            f"{spaces.describe_space(space)}; use the agent's own behaviour."
        )
    check_replay(what, agent)


def check_replay(what: str, agent: Agent) -> None:
    """Raise `ForageError` for an agent that learns only from its own actions.

    One that learns from rollouts, but usually acts by another behaviour, learns from all.
    """
    if agent.on_policy and agent.usual_behaviour == "policy":
        raise ForageError(
            f"{type(agent).__name__} learns only from actions it chose itself, so {what} would mislead it; use its own "
            f"behaviour, or an agent that learns from a replay memory, such as dqn."
        )


def check_noise(what: str, agent: Agent, spec: Spec) -> tuple[int, ...]:
    """Return the shape of the noise that the agent makes actions from. Raise `ForageError` if it makes them from
    none.
    """
    shape = agent.noise(spec)
    if shape is None:
        raise ForageError(
            f"{what[0].upper()}{what[1:]} is handed to agents that make continuous actions from normal noise, and "
            f"{type(agent).__name__} makes none from it in {spec.name}; sac, td3 and ppo do where actions are "
            f"continuous, as in Pendulum-v1."
        )
    return shape


def check_writes(what: str, agent: Agent, spec: Spec, grouped: bool = True) -> None:
    """Raise `ForageError` unless the agent writes text; if `grouped`, several answers to each prompt."""
    if not isinstance(spec.action_space, Tokens) or not hasattr(agent, "temperature"):
        raise ForageError(
            f"{what} is text, and {type(agent).__name__} in {spec.name} writes none; use it with grpo in text:addition "
            f"or the like."
        )
    if grouped and agent.group < 2:
        raise ForageError(
            f"{what} stands beside others to the same prompt, and {type(agent).__name__} compares none; use an agent "
            f"of groups, such as grpo."
        )
