"""Checks of a setup that no part can make alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox
import jax

from forage.config import registry
from forage.config.defaults import default_behaviour
from forage.core import prng, spaces
from forage.core.ports import Agent, Behaviour, Starts
from forage.core.types import ForageError, Spec
from forage.loop.learner import Learner
from forage.nn.encoders import is_image
from forage.starts.reset import Reset

MOST = 2**31 - 1  # steps of a seed, and the largest seed: both are counted in 32 bits


def check_collects_nothing(agent: Agent, behaviour: Behaviour, starts: Starts, visits: bool) -> None:
    """Raise `ForageError` for what is about collecting, in a run from a data set."""
    for what, named in (
        ("behaviour", type(behaviour) is not type(default_behaviour(agent))),
        ("starts", not isinstance(starts, Reset)),
        ("visits", visits),
    ):
        if named:
            raise ForageError(f"A run that learns from a data set takes no environment steps; leave out --{what}.")


def check_steps(agent: Agent, spec: Spec, steps: int, offline: bool) -> None:
    """Raise `ForageError` for steps of each seed that no run can take."""
    each = 1 if offline else agent.num_envs * agent.rollout_length
    most = MOST // spec.num_agents // each * each  # whole rollouts; a memory counts what every agent lived through
    if not 1 <= steps <= most:
        raise ForageError(f"A run takes from 1 to {most:,} steps of each seed, not {steps:,}.")


def check_sizes(agent: Agent, spec: Spec, given: dict[str, Any]) -> None:
    """Raises `ForageError` where `hidden_sizes` is given to an agent that sees images and has no use for it."""
    if "hidden_sizes" not in given or not is_image(spaces.seen(spec.observation_space)):
        return

    def shapes(agent: Agent) -> Any:
        return jax.eval_shape(lambda: agent.init(prng.key(0), spec))

    agent.check(spec)
    changed: dict[str, Any] = {"hidden_sizes": (*given["hidden_sizes"], 1)}
    if equinox.tree_equal(shapes(agent), shapes(dataclasses.replace(agent, **changed))):
        raise ForageError(
            f"hidden_sizes has no effect on {registry.short_name(agent)} in {spec.name}, which shows images: its "
            f"convolutions are followed by one layer of a size of their own. Leave it out."
        )


def check_learning(learner: Learner, steps: int) -> None:
    """Raises `ForageError` for a run that is over before the agent begins to learn."""
    agent, memory = learner.agent, learner.memory
    each = agent.num_envs * agent.rollout_length
    if -(-steps // each) <= memory.held_back:
        raise ForageError(
            f"{registry.short_name(memory)} holds back {memory.held_back:,} rollouts of {each:,} steps each, and a run "
            f"of {steps:,} steps is over before it hands out the first; take more steps, or hold back fewer."
        )
    if -(-steps // each) * each < agent.learning_starts < MOST:
        raise ForageError(
            f"{registry.short_name(agent)} begins to learn after {agent.learning_starts:,} steps (learning_starts), "
            f"and this run has {steps:,}; take more steps, or a smaller learning_starts."
        )
