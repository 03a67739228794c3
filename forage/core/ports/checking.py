"""Comparison of a part's needs with its environment and with the agent: one sentence for the first that is not met."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args

import jax
import numpy as np
from gymnasium import spaces

from forage.core.ports import Agent, Behaviour, Environment, Memory, Part, Rewards, Starts, Tasks
from forage.core.ports.needs import Actions, Agents, Needs, Observations
from forage.core.spaces import (
    MASK,
    MixedSpace,
    OneHot,
    Tokens,
    describe_space,
    is_bounded,
    is_bounded_box,
    nested_leaves,
    observation_part,
    unknown_actions,
    unknown_space,
)
from forage.core.types import ForageError, Spec


class Gap(NamedTuple):
    """The sentence on a need that is not met."""

    need: str
    fact: str  # that is against it
    alternative: str  # that works
    special: bool = False  # whether `Needs.reason` and `Needs.instead` are about it, if they are about one need alone


ACTIONS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "numbered": ("a Discrete action space", lambda space: isinstance(space, spaces.Discrete)),
    "choices": (
        "a Discrete or MultiDiscrete action space",
        lambda space: isinstance(space, spaces.Discrete | spaces.MultiDiscrete),
    ),
    "continuous": ("a continuous action space", lambda space: isinstance(space, spaces.Box)),
    "bounded": ("a continuous, bounded action space", is_bounded_box),
    "any": ("actions that are all choices or all numbers", lambda space: not isinstance(space, MixedSpace)),
    "mixed": ("choices beside numbers", lambda space: isinstance(space, MixedSpace)),
    "bounded mixed": (
        "choices beside numbers with bounds",
        lambda space: isinstance(space, MixedSpace) and bool(is_bounded(space.numbers).all()),
    ),
}
"""The kinds of actions: their words, and whether a space is one."""
OBSERVATIONS: dict[str, tuple[str, Callable[[Any], bool], str]] = {
    "array": (
        "boxes, images or numbers from 0 up",
        lambda space: isinstance(space, spaces.Box) or counts_from_zero(space),
        "flatten it",
    ),
    "vector": (
        "vectors of numbers",
        lambda space: isinstance(space, spaces.Box) and len(space.shape) == 1,
        "take an environment with such observations",
    ),
    "numbered": (
        "numbered states, as numbers from 0 up or one-hot",
        lambda space: isinstance(space, OneHot) or counts_from_zero(space),
        "try tabular:RiverSwim-6",
    ),
}
"""The kinds of observations: their words, whether a space is one, and an environment that has it."""
GIVEN = {
    "demonstrations": ("imitates demonstrations", "a file of them with {} FILE (forage data record writes one)"),
    "base": ("builds on another policy", "the run of one with {} RUN"),
}
"""The purpose of an option that has to be given, and its value, by the option's name."""


def needs_of(part: Part) -> list[Needs]:
    """Return the needs of a part: those of its base classes first, then its own.

    The actions that a class names replace those of its bases.
    """
    if any(field.name == "needs" for field in dataclasses.fields(part)):
        return []  # an option of that name
    found = [vars(cls)["needs"] for cls in reversed(type(part).__mro__) if "needs" in vars(cls)]
    found = [own.fget(part) if isinstance(own, property) and own.fget else own for own in found]
    if wrong := [own for own in found if not isinstance(own, Needs)]:
        raise ForageError(
            f"needs of {type(part).__name__} is a forage.core.ports.needs.Needs, such as Needs(actions='numbered'), "
            f"not a {type(wrong[0]).__name__}."
        )
    for name, kinds in (("actions", Actions), ("observations", Observations), ("agents", Agents)):
        known = get_args(kinds)
        if wrong := [kind for own in found if (kind := getattr(own, name)) not in known]:
            words = ", ".join(filter(None, known))
            raise ForageError(f"{name} that {type(part).__name__} needs are one of {words}, not {wrong[0]!r}.")
    named = [number for number, own in enumerate(found) if own.actions]
    return [dataclasses.replace(own, actions="") if i in named[:-1] else own for i, own in enumerate(found)]


def check_agent(agent: Agent, spec: Spec) -> None:
    """Raise `ForageError` if an agent cannot work in an environment, by its needs or by its own check."""
    check_needs(agent, spec)
    agent.check(spec)


def check_needs(
    part: Part,
    spec: Spec,
    agent: Agent | None = None,
    environment: Environment | None = None,
    tasks: Tasks | None = None,
) -> None:
    """Raise `ForageError` for the first need of a part that is not met. `None` is not compared."""
    who = type(part).__name__
    for needs in needs_of(part):
        for gap in gaps(needs, part, spec, agent, environment, tasks):
            need, alternative = gap.need, gap.alternative
            if gap.special or not (needs.ability or needs.info or needs.provides):
                need, alternative = needs.reason.format(who) or need, needs.instead or alternative
            raise ForageError(f"{need}, and {gap.fact}; {alternative}.")


def gaps(
    needs: Needs, part: Part, spec: Spec, agent: Agent | None, environment: Environment | None, tasks: Tasks | None
) -> Iterator[Gap]:
    """Yield the needs of a part that are not met."""
    who, name = type(part).__name__, spec.name
    yield from space_gaps(needs, part, spec)
    if needs.agents == "one" and spec.num_agents > 1:
        other = "ppo learns there" if isinstance(part, Agent) else "use an environment with one"
        yield Gap(f"{who} needs one agent", f"{name} has {spec.num_agents}", other)
    if needs.agents == "team" and spec.num_agents == 1:
        yield Gap(
            f"{who} needs a team of agents",
            f"{name} has one agent",
            "use a team, such as teams:TwoStep or boards:TicTacToe",
        )
    if needs.one_reward and spec.reward_names:
        fact = f"{name} gives several rewards ({', '.join(spec.reward_names)})"
        yield Gap(f"{who} needs one reward", fact, "take an environment with one")
    if needs.horizon and spec.horizon is None:
        limit = "give it one with --wrap time-limit:200"
        yield Gap(f"{who} needs episodes of limited length", f"those of {name} have no limit", limit)
    if needs.whole_episodes and spec.horizon is not None:
        rollout = getattr(part, "rollout_length", None) or getattr(agent, "rollout_length", 0)
        if rollout < (least := needs.whole_episodes * spec.horizon):
            fact = f"those of {name} last up to {spec.horizon} steps"
            longer = f"give it a rollout_length of {least} or more, not {rollout}"
            yield Gap(f"{who} learns from whole episodes", fact, longer)
    if needs.single_turn and spec.horizon != 1:
        yield Gap(f"{who} needs answers in one turn", f"those of {name} take {spec.horizon}", "use grpo")
    if missing := [number for number in needs.info if number not in spec.info_names]:
        names = " and ".join(missing)
        yield Gap(f"{who} needs {names} in the info of a step", f"{name} does not return {names}", "take another", True)
    if needs.provides and environment is not None and not getattr(environment, needs.provides, None):
        yield Gap(
            f"{who} needs an environment with {needs.provides}", f"{name} does not provide them", "take another", True
        )
    if needs.same_task and tasks is not None and tasks.varies:
        yield Gap(f"{who} needs one task", f"{type(tasks).__name__} draws several", "use --tasks same")
    if needs.given and getattr(part, needs.given, None) is None:
        check_given(part, needs)
    if agent is not None:
        yield from agent_gaps(needs, who, agent, spec)


def space_gaps(needs: Needs, part: Part, spec: Spec) -> Iterator[Gap]:
    """Yield the needs of a part that the spaces of an environment do not meet."""
    who, acts, seen = type(part).__name__, spec.action_space, observation_part(spec.observation_space)
    kinds = needs.actions.split(" or ") if needs.actions else []
    if kinds and not is_known(acts):
        raise ForageError(unknown_actions(acts))
    if kinds and not any(ACTIONS[kind][1](acts) for kind in kinds):
        near = "bounded" if isinstance(acts, spaces.Box) else "bounded mixed" if isinstance(acts, MixedSpace) else ""
        kind = near if near in kinds else kinds[0]
        fact = f"{spec.name} has {describe_space(acts)}{open_entry(acts) if kind == near else ''}"
        other = (
            f"try {fitting_agents(acts, part.offline)}" if isinstance(part, Agent) else "use the agent's own behaviour"
        )
        yield Gap(f"{who} needs {ACTIONS[kind][0]}", fact, other)
    if needs.observations == "any":
        check_readable(seen)
    elif needs.observations == "text":
        if not (is_text(spec.observation_space) and isinstance(acts, Tokens)):
            yield Gap(f"{who} needs text", f"{spec.name} takes something else", "use text:addition or the like")
    elif needs.observations:
        words, fits, alternative = OBSERVATIONS[needs.observations]
        if not fits(seen):
            yield Gap(f"{who} needs {words}", f"{spec.name} gives {describe_space(seen)}", alternative)
    if needs.unmasked and isinstance(spec.observation_space, spaces.Dict) and MASK in spec.observation_space.spaces:
        fact = f"{spec.name} forbids some by a mask"
        yield Gap(f"{who} needs all actions to be allowed", fact, "try dqn or ppo")


def agent_gaps(needs: Needs, who: str, agent: Agent, spec: Spec) -> Iterator[Gap]:
    """Yield the needs of a part that the agent does not meet."""
    name, text = type(agent).__name__, "text:addition or the like"
    if needs.off_policy and agent.on_policy and agent.usual_behaviour == "policy":
        other = "use its own behaviour, or an agent that learns from a replay memory, such as dqn"
        yield Gap(f"{name} learns only from actions that it chose itself", f"{who} chooses others", other)
    if needs.writes and not (isinstance(spec.action_space, Tokens) and hasattr(agent, "temperature")):
        yield Gap(f"{who} is for text", f"{name} in {spec.name} writes none", f"use it with grpo in {text}")
    if needs.groups and agent.group < 2:
        fact, other = f"{name} compares none", "use an agent of groups, such as grpo"
        yield Gap(f"{who} needs several answers to one prompt", fact, other)
    if needs.normal_noise and agent.noise(spec) is None:
        fact = f"{name} makes none from it in {spec.name}"
        other = "sac, td3 and ppo do where actions are continuous, as in Pendulum-v1"
        yield Gap(f"{who} needs an agent that makes actions from normal noise", fact, other)
    if needs.without_memory and has_memory(agent, spec):
        fact = f"{name} here remembers what came before"
        yield Gap(f"{who} needs an agent without memory", fact, "use one such as ppo, dqn or sac")
    if needs.ability and not getattr(agent, needs.ability, None):
        reason = needs.reason or f"has no {needs.ability}, which {who} needs"
        raise ForageError(f"{name} {reason}; {needs.instead or 'use an agent that has it'}.")


def check_given(part: Part, needs: Needs) -> None:
    """Raise `ForageError` for an option without a value that the part cannot do without."""
    purpose, value = GIVEN.get(needs.given, (f"needs {needs.given}", "it with {} VALUE"))
    ports = {"memory": Memory, "rewards": Rewards, "behaviour": Behaviour, "starts": Starts, "tasks": Tasks}
    port = next((f"{port}." for port, kind in ports.items() if isinstance(part, kind)), "")
    option = f"--{port}{needs.given.replace('_', '-')}"
    other = f", or {needs.instead}" if needs.instead else ""
    raise ForageError(f"{type(part).__name__} {purpose}; name {value.format(option)}{other}.")


def check_readable(space: spaces.Space[Any]) -> None:
    """Raise `ForageError` for an observation that networks cannot read."""
    if isinstance(space, spaces.Dict):
        for part in space.spaces.values():
            check_readable(part)
    elif not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        raise ForageError(f"Networks cannot read {describe_space(space)}. {unknown_space(space)}")


def has_memory(agent: Agent, spec: Spec) -> bool:
    """Return whether an agent remembers earlier steps of an episode."""
    return bool(jax.tree.leaves(jax.eval_shape(lambda: agent.init_hidden(spec))))


def is_known(space: spaces.Space[Any]) -> bool:
    """Return whether policies can act in a space."""
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.ndim == 1 and not space.start.any()
    if isinstance(space, MixedSpace):
        return True
    return counts_from_zero(space) or (isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating))


def counts_from_zero(space: spaces.Space[Any]) -> bool:
    """Return whether a space has numbers from 0 up."""
    return isinstance(space, spaces.Discrete) and int(space.start) == 0


def is_text(space: spaces.Space[Any]) -> bool:
    """Return whether observations are prompts for answers in text."""
    return isinstance(space, spaces.Dict) and set(space.spaces) - {"role", "room"} == {"context", "reference"}


def open_entry(space: spaces.Space[Any]) -> str:
    """Name the first entry of a box, or of the boxes of mixed actions, that lacks a bound; empty without one."""
    if isinstance(space, MixedSpace):
        found = ((path, open_entry(leaf)) for path, leaf in nested_leaves(space.nested))
        return next((f"{words} in {'.'.join(path)}" for path, words in found if words), "")
    if not isinstance(space, spaces.Box) or is_bounded(space).all():
        return ""
    entry = tuple(np.argwhere(~is_bounded(space))[0].tolist())
    where = f" entry {entry[0] if len(entry) == 1 else entry}" if entry else ""
    return f", whose{where or ' value'} goes from {space.low[entry]:.4g} to {space.high[entry]:.4g}"


def fitting_agents(space: spaces.Space[Any], offline: bool) -> str:
    """Name agents that fit an action space, or the property that a data set must have."""
    if isinstance(space, spaces.Discrete):
        return "discrete-cql, discrete-bcq or iql" if offline else "ppo, dqn or sac-discrete"
    if isinstance(space, MixedSpace):
        bounded = bool(is_bounded(space.numbers).all())
        if offline:
            return "bc or iql" if bounded else "a data set that says how far its actions go"
        return "ppo, sac or a2c" if bounded else "ppo or a2c"
    if is_bounded_box(space):
        return "iql, td3-bc or cql" if offline else "ppo, sac or td3"
    if offline:
        return "a data set that says how far its actions go" if isinstance(space, spaces.Box) else "bc or iql"
    return "ppo"
