"""Checks of a setup that no part can make alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import equinox
import jax

from forage.config import registry
from forage.config.defaults import default_behaviour
from forage.config.opponents import check_opponent
from forage.config.options import PORTS, check_actions, whole
from forage.config.ranges import check_ranges, value_text
from forage.core import prng, spaces
from forage.core.errors import nearest, words_of
from forage.core.ports import Agent, Behaviour, Starts
from forage.core.ports.checking import check_agent
from forage.core.schedule import is_schedule, is_scheduled, with_plain_numbers
from forage.core.sweep import settings_of
from forage.core.types import ForageError, Spec
from forage.loop.learner import Learner
from forage.nn.encoders import Own, is_image
from forage.nn.layers import check_activation
from forage.ops.optimiser import check_optimiser
from forage.starts.reset import Reset

if TYPE_CHECKING:
    from forage.config.run_config import RunConfig

MOST = 2**31 - 1  # steps of a seed, and the largest seed: both are counted in 32 bits
MOST_SEEDS = 100_000


def seed_numbers(asked: int | str | Iterable[int], first: int = 0) -> list[int]:
    """Return the seeds: this many from `first` on, or the given ones. Raise `ForageError` if they are invalid."""
    given = asked
    try:
        if isinstance(given, str) or not isinstance(given, Iterable):
            given = range(first, first + min(whole("seeds", given), MOST_SEEDS + 1))
        seeds = [whole("seeds", seed) for seed in given]
    except ForageError:
        seeds = []
    if not seeds or len(set(seeds)) != len(seeds) or not all(0 <= seed <= MOST for seed in seeds):
        raise ForageError(
            f"Seeds are one or more different whole numbers from 0 to {MOST:,}, or how many there are; not "
            f"{value_text(asked)}."
        )
    if len(seeds) > MOST_SEEDS:
        raise ForageError(f"A run has at most {MOST_SEEDS:,} seeds, not {value_text(asked)}.")
    return seeds


def check_config(config: RunConfig, options: dict[str, Any]) -> None:
    """Raise `ForageError` for parts and numbers of a run that cannot go together, before its loop is built.

    `options`: those that were given beside the agent's name.
    """
    agent, spec = config.agent, config.spec
    check_sizes(agent, spec, options)
    check_groups(agent, config.starts)
    check_behaviour(agent, config.names)
    if config.offline:
        check_collects_nothing(agent, config.behaviour, config.starts, config.visits)
    for port in ("agent", *PORTS):
        check_ranges(getattr(config, port), config.names[port])
    check_networks(agent, spec)
    if is_scheduled(agent):
        for which in (0, -1):
            check_agent(with_plain_numbers(agent, which), spec)
    if config.sweep:
        check_sweep(config)
    check_steps(agent, spec, config.steps, config.offline)
    check_actions(config.evaluation_actions)
    if config.opponent is not None:
        check_opponent(config.opponent, config.environment, spec)


def check_sweep(config: RunConfig) -> None:
    """Raise `ForageError` for a sweep over another option than a number of the agent, or over unfit values."""
    agent = config.agent
    numbers = [f.name for f in dataclasses.fields(agent) if isinstance(getattr(agent, f.name), float)]
    for key, values in config.sweep.items():
        if is_schedule(getattr(agent, key, None)):
            raise ForageError(f"{key} follows a schedule in this run; sweep another number, or leave the schedule out.")
        if key not in numbers:
            raise ForageError(f"A sweep is over a number of the agent, not {key!r}{nearest(key, numbers)}")
        if not values or len(set(values)) != len(values):
            raise ForageError(f"A sweep takes one or more different values, as in {key}=0.0003,0.001; not {values}.")
    # In plain numbers, which the agent looks at: in the program they are traced.
    for setting in settings_of(config.sweep):
        member = dataclasses.replace(agent, **setting)
        check_ranges(member, config.names["agent"])
        check_agent(with_plain_numbers(member), config.spec)


def check_collects_nothing(agent: Agent, behaviour: Behaviour, starts: Starts, visits: bool) -> None:
    """Raise `ForageError` for options on collecting in a run from a data set."""
    for what, named in (
        ("behaviour", type(behaviour) is not type(default_behaviour(agent))),
        ("starts", not isinstance(starts, Reset)),
        ("visits", visits),
    ):
        if named:
            raise ForageError(f"A run that learns from a data set takes no environment steps; leave out --{what}.")


def check_groups(agent: Agent, starts: Starts) -> None:
    """Raise `ForageError` if episodes do not begin in the groups that the agent compares."""
    if agent.group <= 1:  # below 1 it is out of its range, which is said elsewhere
        return
    name, wanted = registry.part_name(agent), agent.branching
    if wanted is not None and wanted != starts.branching:
        options = {"size": agent.group} | agent.starts_options
        words = " ".join(f"--starts.{option} {str(value).lower()}" for option, value in options.items())
        raise ForageError(
            f"{name} learns from answers that go on from {wanted.prefixes} prefixes of "
            f"{'each' if wanted.per_answer else 'the first' if wanted.stems == 1 else 'two'} of {agent.group}"
            f"{', a rollout later' if wanted.late else ''}; use --starts {agent.usual_starts} {words}."
        )
    if starts.group != agent.group:
        raise ForageError(
            f"{name} compares {agent.group} episodes with one beginning, and --starts "
            f"{registry.short_name(starts)} begins {starts.group or 'none'} alike; use --starts groups --starts.size "
            f"{agent.group}."
        )
    if agent.num_envs % agent.group:
        raise ForageError(
            f"{name} fills whole groups of {agent.group} episodes, and {agent.num_envs} environments are not a "
            f"multiple; give num_envs={-(-agent.num_envs // agent.group) * agent.group}."
        )


def check_behaviour(agent: Agent, names: Mapping[str, str]) -> None:
    """Raise `ForageError` if an agent's answers are not chosen by the behaviour that it cannot do without."""
    needed, given = agent.needed_behaviour, names["behaviour"]
    if needed and given != needed:
        raise ForageError(
            f"{names['agent']} learns from what the behaviour {needed} does in each group, and {given} "
            f"does not; use --behaviour {needed}."
        )


def check_steps(agent: Agent, spec: Spec, steps: int, offline: bool) -> None:
    """Raise `ForageError` for steps of each seed that no run can take."""
    each = 1 if offline else agent.num_envs * agent.rollout_length
    most = MOST // spec.num_agents // each * each  # whole rollouts; a memory counts what every agent lived through
    if not most:
        raise ForageError(
            f"A rollout of {agent.rollout_length:,} steps in {agent.num_envs:,} environments is longer than a run can "
            f"be, {MOST:,} steps; take a smaller rollout_length or num_envs."
        )
    if not 1 <= steps <= most:
        raise ForageError(f"A run takes from 1 to {most:,} steps of each seed, not {steps:,}.")


SIZES = ("hidden_sizes", "value_sizes", "layer_norm")
"""Options of layers that some agents have no use for where they see images."""


def check_sizes(agent: Agent, spec: Spec, given: dict[str, Any]) -> None:
    """Raise `ForageError` if layers are described to an agent that sees images and has no use for that."""
    asked = [name for name in SIZES if given.get(name)]
    if not asked or not is_image(spaces.observation_part(spec.observation_space)):
        return

    def shapes(agent: Agent) -> Any:
        return jax.eval_shape(lambda: agent.init(prng.key(0), spec))

    agent = with_plain_numbers(agent)
    check_agent(agent, spec)
    for name in asked:
        other: dict[str, Any] = {name: not given[name] if name == "layer_norm" else (*given[name], 1)}
        if equinox.tree_equal(shapes(agent), shapes(dataclasses.replace(agent, **other))):
            raise ForageError(
                f"{name} has no effect on {registry.short_name(agent)} in {spec.name}, which shows images: its "
                f"convolutions are followed by one layer of a size of their own. Leave it out."
            )


def check_networks(agent: Agent, spec: Spec) -> None:
    """Raise `ForageError` for an activation, an optimiser or an encoder that cannot be, before anything begins."""
    options: dict[str, Any] = {field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)}
    if "activation" in options:
        check_activation(options["activation"])
    if "optimiser" in options:
        check_optimiser(options["optimiser"])
    if (cls := options.get("encoder")) is not None:
        check_encoder(cls, spaces.observation_part(spec.observation_space))


def check_encoder(cls: Any, space: Any) -> None:
    """Raise `ForageError` for a class of the user that is no encoder of observations of this space."""
    name = getattr(cls, "__qualname__", repr(cls))
    contract = (
        "an encoder is an equinox.Module made by Class(key, observation_space), and makes a vector of an observation"
    )
    try:
        found = jax.eval_shape(lambda: Own(cls, prng.key(0), space))
        features = jax.eval_shape(lambda own: own(spaces.example(space)), found)
    except Exception as error:
        raise ForageError(
            f"{name} cannot encode {spaces.describe_space(space)}: {words_of(error).splitlines()[0].rstrip('.')}; "
            f"{contract}."
        ) from error
    if getattr(features, "shape", None) != (found.size,):
        raise ForageError(
            f"{name} gives features of shape {getattr(features, 'shape', features)}, and its size is {found.size}; "
            f"{contract}."
        )


def check_learning(learner: Learner, steps: int) -> None:
    """Raise `ForageError` for a run that is over before the agent begins to learn."""
    agent, memory = learner.agent, learner.memory
    each = agent.num_envs * agent.rollout_length
    if -(-steps // each) <= memory.waiting_rollouts:
        raise ForageError(
            f"{registry.short_name(memory)} holds back {memory.waiting_rollouts:,} rollouts of {each:,} steps each, "
            f"and a run of {steps:,} steps is over before it hands out the first; take more steps, or hold back fewer."
        )
    if -(-steps // each) * each < agent.learning_starts < MOST:
        raise ForageError(
            f"{registry.short_name(agent)} begins to learn after {agent.learning_starts:,} steps (learning_starts), "
            f"and this run has {steps:,}; take more steps, or a smaller learning_starts."
        )
