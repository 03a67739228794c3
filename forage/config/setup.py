"""From names and options to the parts of a run, and to the runner of its loop; and back, to plain data."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox
import jax
import numpy as np
from gymnasium.spaces import Box

from forage.config import models, registry, teachers
from forage.config.checks import (
    check_behaviour,
    check_collects_nothing,
    check_groups,
    check_learning,
    check_networks,
    check_sizes,
    check_steps,
    seed_numbers,
)
from forage.config.defaults import (
    chosen,
    default_behaviour,
    default_memory,
    default_steps,
    left_out,
    suggest,
    upon,
    usual_parts,
)
from forage.config.environment import environment_spec, resolve_environment
from forage.config.loose import unknown, with_loose
from forage.config.opponents import check_opponent, default_opponent, opponent_of
from forage.config.options import whole
from forage.config.ranges import check_ranges
from forage.config.saved import BY_ENTRY, as_trained
from forage.config.teachers import taught
from forage.config.trusting import of_environment, stored
from forage.config.values import understood_part, with_one_schedule
from forage.core import prng, spaces
from forage.core.arrays import meaning
from forage.core.errors import nearest
from forage.core.host import HostEnvironment
from forage.core.mesh import Devices, forced_devices, prepare_devices, size_of
from forage.core.ports import Agent, Behaviour, Environment, Evolver, Memory, Rewards, Starts, Tasks
from forage.core.schedule import has_function, is_schedule, is_scheduled, moments, with_plain_numbers
from forage.core.sweep import members_of, settings_of
from forage.core.types import ForageError, Spec
from forage.data import demonstrations
from forage.environments import make
from forage.environments.adapters.on_host import OnHost
from forage.environments.catalogue import NATIVE
from forage.environments.checking import check_environment
from forage.environments.plain import from_plain
from forage.loop.cluster.workers import NO_WORKERS, Workers
from forage.loop.compatible import check_names, check_signatures
from forage.loop.device.evolution import EvolutionLoop
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.programs import as_arrays, batch_seeds
from forage.loop.device.runner import DeviceRunner
from forage.loop.host.loop import HostOptions
from forage.loop.host.runner import HostRunner
from forage.loop.host.runner import vary as vary_learner
from forage.loop.host.starts import HostedEnvironment
from forage.loop.learner import Learner
from forage.loop.offline.loop import OfflineLoop
from forage.loop.policy import check_actions
from forage.loop.runner import Numbers, Runner
from forage.memory.around import Around
from forage.memory.dataset import DataSet, Opened
from forage.memory.mixed import OpenedMixed
from forage.starts.reset import Reset
from forage.tasks.same import Same

ONLINE = ", or go on online from such a run with --memory mixed --memory.data FILE"
CONTRACTS = {"behaviour": Behaviour, "rewards": Rewards, "memory": Memory, "tasks": Tasks, "starts": Starts}
UPDATES = 50_000  # of a run from a data set where nobody says how many: minutes of a laptop


@dataclasses.dataclass
class Setup:
    """All settings of a run."""

    name: str  # of the environment
    environment: Environment | Callable[[int], HostEnvironment]
    environment_config: dict[str, Any]
    spec: Spec
    agent: Agent
    behaviour: Behaviour
    rewards: Rewards
    memory: Memory
    tasks: Tasks
    starts: Starts
    steps: int
    seeds: list[int]
    sweep: dict[str, list[float]]
    why: str = ""  # why this agent, when nobody named one
    settings_from: str = ""  # the preset or rule behind the agent's settings
    left_out: str = ""  # what of it an agent that was given as an object lacks
    steps_from: str = ""  # why so many steps, when nobody said how many
    evaluation_actions: str = "auto"  # or greedy, or sampled
    visits: bool = False  # where the agent goes is counted
    opponent: str | None = None  # who plays the other seats in evaluation: random, perfect or a run's directory

    @property
    def native(self) -> bool:
        return isinstance(self.environment, Environment)

    @property
    def offline(self) -> bool:
        """Return whether the run learns from a data set, and its steps are updates."""
        return self.memory.offline

    @property
    def members(self) -> list[dict[str, Any]]:
        """Return the seed of each member of the run, and its settings in a sweep."""
        return members_of(self.sweep, self.seeds)

    @property
    def settings(self) -> int:
        """Return the number of settings of a sweep; without one, 1."""
        return len(settings_of(self.sweep))

    @property
    def scored(self) -> str | None:
        """Return the reward of a score, if the environment has several: `1 treasure + 0.1 time`."""
        names = self.spec.reward_names
        if not names:
            return None
        weights, steps = self.rewards.score(np.eye(len(names)), self.spec), np.arange(1.0, len(names) + 1)
        if not np.isclose(self.rewards.score(steps[None], self.spec)[0], steps @ weights):
            return f"the score of {registry.short_name(self.rewards)}"
        return " + ".join(f"{weight:g} {name}" for weight, name in zip(weights, names, strict=True) if weight) or "0"

    def learner(self, learns: bool = True) -> Learner:
        """Build the learner with its memory. Raise `ForageError` if its parts do not fit.

        Without `learns` it only acts, and neither data sets nor demonstrations are read.
        """
        if isinstance(self.agent, Evolver):
            self.check_evolver()
        rows = 1 if self.agent.joint else self.spec.num_agents  # that a memory has for a step of one environment
        memory = shortened(self.memory, self.agent, self.agent.num_envs * rows, self.steps * rows)
        if learns:
            memory = self.prepared(memory.opened(self.spec))
        behaviour = teachers.with_expert(self.behaviour, self.spec, learns)
        parts = (self.agent, behaviour, self.rewards, memory)
        if learns:
            parts = models.with_weights(teachers.with_weights(demonstrations.opened(parts, self.spec), self.spec))
        learner = Learner(*parts, self.spec)
        learner.check(self.environment if isinstance(self.environment, Environment) else None)
        _ = self.scored  # where nothing says what several rewards are worth together, before anything begins
        if not self.offline:
            check_learning(learner, self.steps)
        return learner

    def prepared(self, memory: Memory) -> Memory:
        """Return the memory with the agent's training data: the best episodes of a data set, or the rewards'
        returns.
        """
        agent, rewards = with_plain_numbers(self.agent), self.rewards
        told = agent.returns or agent.contexts
        if not (told or agent.best_episodes < 1):
            return memory
        name = registry.part_name(agent)
        tells = isinstance(memory, OpenedMixed) and agent.fine_tunes and not agent.contexts
        if type(memory) is not Opened and not tells:
            raise ForageError(
                f"{name} learns from whole episodes of a data set, which {registry.part_name(self.memory)} does not "
                f"tell; give it one file with --data{ONLINE if agent.fine_tunes else ''}."
            )
        if told and ("discount" in self.sweep or is_scheduled((rewards, getattr(self.agent, "discount", 0)))):
            raise ForageError(
                f"{name} learns from returns that are computed once, so its discount and its rewards stay what they "
                f"are; sweep another number, and leave schedules of these out."
            )
        state = rewards.init(prng.key(0), self.spec, 1)
        if tells and jax.tree.leaves(state):
            raise ForageError(
                f"{name} learns from returns that are computed once, and {registry.part_name(rewards)} changes its "
                f"rewards as it learns; use --rewards environment, scale or shift."
            )
        if jax.tree.leaves(state):  # rewards with a state are refused
            return memory
        data = memory.stored if isinstance(memory, OpenedMixed) else memory.data
        paid = rewards.relabel(state, jax.tree.map(lambda x: x[None], data)).reward[0]
        paid = np.asarray(paid, np.float64)
        if isinstance(memory, OpenedMixed):
            return memory.prepared(agent, paid, self.spec.horizon)
        return memory.prepared(agent, paid)

    def loop(self, learns: bool = True) -> DeviceLoop:
        """Build the loop on the device. Raise `ForageError` if its parts do not fit. `learns`: as in `learner`."""
        assert isinstance(self.environment, Environment)
        learner = self.learner(learns)
        check_environment(self.environment, self.name)
        starts = taught(self.starts, self.environment)
        kind = OfflineLoop if self.offline else EvolutionLoop if isinstance(self.agent, Evolver) else DeviceLoop
        opponent = opponent_of(self.opponent, self.environment, self.spec)
        loop = kind(learner, self.environment, self.tasks, starts, self.visits, opponent)
        loop.check()
        return loop

    def runner(
        self, devices: Devices = None, learns: bool = True, workers: Workers = NO_WORKERS, hosts: int = 1
    ) -> Runner:
        """Build the runner for every member. Raise `ForageError` if the parts do not fit.

        On the CPU, `devices` makes as many devices instead of one for each member; JAX must not be in use yet.
        `XLA_FLAGS=--xla_force_host_platform_device_count=N` makes N. Without `learns` it only evaluates. `workers` step
        environments on the host. With several connected `hosts`, `devices` are those of all.
        """
        members = self.members
        numbers = {f"learner.agent.{name}": [member[name] for member in members] for name in self.sweep}
        return self.runner_of([member["seed"] for member in members], numbers, devices, learns, workers, hosts)

    def runner_of(
        self,
        seeds: Sequence[int],
        numbers: Numbers,
        devices: Devices = None,
        learns: bool = True,
        workers: Workers = NO_WORKERS,
        hosts: int = 1,
    ) -> Runner:
        """Build the runner for these seeds, each with its own numbers; see `runner`."""
        if isinstance(self.environment, Environment):
            if workers.count:
                raise ForageError(f"{self.name} is stepped on the device, where no workers are needed; leave them out.")
            if hosts == 1:  # several have settled on theirs
                prepare_devices(size_of(devices) if devices else forced_devices() or len(seeds))
            varied = batch_seeds(self.loop(learns), as_arrays(numbers))
            return DeviceRunner(varied, list(seeds), self.steps, devices, hosts > 1)
        if hosts > 1:
            raise ForageError(f"{self.name} runs on one host; several share native environments, such as CartPole-v1.")
        if self.offline:
            raise ForageError(self.only_data_on_host())
        learners = vary_learner(self.learner(), numbers, len(seeds))
        self.check_host()
        for learner in learners:
            learner.check()
            learner.check_judge(self.starts)
            learner.check_judge(self.tasks)
        return HostRunner(learners, self.environment, list(seeds), self.steps, self.way, workers)

    def only_data_on_host(self) -> str:
        """Return a sentence on alternatives to learning from a data set alone on the host."""
        name = self.name.rpartition(":")[2]
        own = ""
        if name in NATIVE:
            like = environment_spec(name, make(name))
            same = all(
                meaning(kind, getattr(like, space)) == meaning(kind, getattr(self.spec, space))
                for kind, space in (("observations", "observation_space"), ("actions", "action_space"))
            )
            own = f"the same data set with {name}, which is native; or " if same else ""
        agent = "rlpd" if isinstance(self.spec.action_space, Box) else "dqn"
        return (
            f"{self.name} runs on the host, and a run that learns from a data set alone is evaluated in a native "
            f"environment. What works: {own}an agent that acts in {self.name} and learns from both, as in forage train "
            f"{agent} {self.name} --memory mixed --memory.data FILE."
        )

    @property
    def way(self) -> HostOptions:
        """Return the further options of a run on the host."""
        tasks = None if isinstance(self.tasks, Same) else self.tasks
        plain = isinstance(self.starts, Reset) and tasks is None
        return HostOptions(None if plain else self.starts, self.visits, tasks)

    def check_host(self) -> None:
        """Raise `ForageError` if episodes cannot begin on the host as the parts say."""
        check_names(self.tasks, self.starts)
        same, reset = isinstance(self.tasks, Same), isinstance(self.starts, Reset)
        if same and reset:
            return
        if not ((same or self.tasks.on_host) and (reset or self.starts.on_host)):
            why = f" with {registry.short_name(self.behaviour)}" if self.behaviour.on_host else ""
            raise ForageError(
                f"{self.name} runs on the host{why}, where episodes begin as it says or where they have been (--starts "
                f"archive, go-explore), and tasks choose by number; other tasks and starts need a native environment "
                f"such as CartPole-v1{' and a behaviour that does not intervene' if why else ''}."
            )
        if not (same or reset or self.starts.repeats):
            raise ForageError(
                f"{registry.short_name(self.tasks)} chooses the problem of each episode, and "
                f"{registry.short_name(self.starts)} lets episodes go on where another has been; use --starts reset or "
                f"groups."
            )
        for part in (self.tasks, self.starts):
            check_signatures(part, report="state, rollout, review")
        assert not isinstance(self.environment, Environment)
        batch = self.environment(1)
        try:
            for tasks, starts in moments((self.tasks, self.starts)):
                world = HostedEnvironment.of(batch, self.spec, starts.repeats, not same, starts.follows_steps)
                tasks.check(world)
                starts.check(world, tasks)
            if self.starts.repeats and not batch.seeded:
                raise ForageError(
                    f"{self.name} does not begin alike for the same seed, as {registry.short_name(self.starts)} would "
                    f"have it; use --starts reset."
                )
            if not (batch.returns or reset):
                raise ForageError(
                    f"{self.name} cannot be put back to where it was, so its episodes begin with --starts reset."
                )
        finally:
            batch.close()

    def check_evolver(self) -> None:
        """Raise `ForageError` for options without use for an agent that learns from whole returns."""
        name = registry.part_name(self.agent)
        if not self.native:
            raise ForageError(
                f"{name} plays whole populations in one program, and {self.name} runs on the host; use a native "
                f"environment such as CartPole-v1."
            )
        for port, part in usual_parts(self.agent).items():
            given = getattr(self, port)
            if not equinox.tree_equal(given, part):
                raise ForageError(
                    f"{name} learns from the whole returns of episodes that it plays itself, so --{port} "
                    f"{registry.part_name(given)} has no use there; leave it out."
                )
        if self.visits:
            raise ForageError(f"{name} keeps returns alone, so its visits cannot be counted; leave visits out.")

    def config(self) -> dict[str, Any]:
        """Return plain data from which `from_config` makes the same setup."""
        return {
            "environment": self.environment_config,
            **{port: registry.to_config(getattr(self, port)) for port in ("agent", *CONTRACTS)},
            "steps": self.steps,
            "seeds": self.seeds,
            "sweep": self.sweep,
            "evaluation_actions": self.evaluation_actions,
            "visits": self.visits,
            "opponent": self.opponent,
            "spec": {
                "name": self.spec.name,
                "observation_space": spaces.to_json(self.spec.observation_space),
                "action_space": spaces.to_json(self.spec.action_space),
                "reward_names": list(self.spec.reward_names),
                "num_agents": self.spec.num_agents,
                "horizon": None if self.spec.horizon is None else int(self.spec.horizon),
                "info_names": list(self.spec.info_names),
                **({"scales": BY_ENTRY} if spaces.reads_by_entry(self.spec.observation_space) else {}),
            },
        }


def make_setup(
    agent: Agent | str | None,
    environment: Any,
    *,
    steps: int | str | None = None,
    seeds: int | Sequence[int] | None = None,
    agent_options: Mapping[str, Any] | None = None,
    environment_options: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[float]] | None = None,
    wrap: Sequence[str] = (),
    why: str = "",
    evaluation_actions: str = "auto",
    visits: bool = False,
    opponent: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    **parts: Any,
) -> Setup:
    """Return the setup with defaults for all unset options. `parts` are by port, each a part or its name.

    `wrap` names wrappers, the first innermost. Other entries of `parts` are options of the agent, such as
    `learning_rate`, as in `agent_options`. `evaluation_actions`: `greedy`, the agent's most likely action, `sampled`,
    drawn from its policy as in training, or `auto`, the better of the two in separate episodes; see
    `forage.runs.scoring.choose`. `visits`: count the visits to each cell of the environment's map. `opponent`: the
    player of every seat but the agent's own in evaluation: `random` (the default if agents play against one another),
    `perfect`, or the directory of a run. `data`: the file or folder of a data set, short for `memory=DataSet(file)`;
    `steps` are then updates.

    Raise `ForageError` for invalid options.
    """
    if data is not None:
        if parts.get("memory") is not None:
            raise ForageError(
                "A data set takes the place of a memory; name one of them, or learn from both with --memory mixed "
                "--memory.data FILE."
            )
        parts["memory"] = DataSet(os.fspath(data))
    loose = {name: parts.pop(name) for name in list(parts) if name not in CONTRACTS}
    if environment is None and loose:
        raise unknown(next(iter(loose)), agent, ())
    for port, part in parts.items():
        if isinstance(part, str):
            parts[port] = registry.build(port, part, {})
        elif part is not None and not isinstance(part, CONTRACTS[port]):
            raise ForageError(
                f"{port} takes a forage.core.ports.{CONTRACTS[port].__name__} or its name, not a {type(part).__name__}"
                f". Available: {', '.join(registry.parts(port))}."
            )
    name, environment, environment_config = resolve_environment(environment, dict(environment_options or {}), wrap)
    spec = environment_spec(name, environment)
    native = isinstance(environment, Environment)
    if agent is None:
        agent, why = suggest(spec, native)
    if loose and isinstance(agent, str | Agent):
        agent_options = with_loose(agent, agent_options or {}, loose, name, environment, parts)
    settings_from = ""
    by_name = isinstance(agent, str)
    if isinstance(agent, str):
        options = dict(dict(agent_options or {}))
        made = registry.build("agent", agent, options)  # options are checked before a preset is laid under them
        under = chosen(agent, name, spec, native, options)
        settings_from = under.why
        preset = {key: value for key, value in under.settings.items() if key not in options}
        agent = models.taken(teachers.taken(dataclasses.replace(made, **preset)))
        check_sizes(agent, spec, options)
        given = {port: part for port, part in parts.items() if part is not None}
        parts = upon(under.parts, given)
    elif agent_options:
        raise ForageError("agent_options go with an agent's name; an agent that is an object already has its own.")
    if not isinstance(agent, Agent):
        raise ForageError(
            f"An agent is a forage.core.ports.Agent or its name, such as 'ppo'; not a {type(agent).__name__}."
        )
    agent = with_one_schedule(understood_part(agent), dict(agent_options or {}))
    named = {port: part for port, part in parts.items() if part is not None}
    lacks = "" if by_name else left_out(agent, name, spec, native, named)
    by_port = {port: understood_part(parts.get(port) or part) for port, part in usual_parts(agent).items()}
    if getattr(by_port["memory"], "inner", True) is None:
        within: dict[str, Any] = {"inner": default_memory(agent)}
        by_port["memory"] = dataclasses.replace(by_port["memory"], **within)
    agent, by_port = (
        demonstrations.with_hashes(agent),
        {port: demonstrations.with_hashes(part) for port, part in by_port.items()},
    )
    agent, by_port = models.taken(teachers.taken(agent)), models.taken(teachers.taken(by_port))
    check_groups(agent, by_port["starts"])
    check_behaviour(agent, by_port["behaviour"])
    offline = by_port["memory"].offline
    by_port["memory"] = by_port["memory"].with_hashes()
    if offline:
        check_collects_nothing(agent, by_port["behaviour"], by_port["starts"], visits)
    by_port["behaviour"] = behaviour = teachers.with_hashes(by_port["behaviour"])
    if getattr(behaviour, "inner", behaviour) is None:
        inner: dict[str, Any] = {"inner": default_behaviour(agent)}
        by_port["behaviour"] = behaviour = dataclasses.replace(behaviour, **inner)
    agent = completed(agent, behaviour)
    if behaviour.on_host and native and not isinstance(agent, Evolver):
        environment = functools.partial(OnHost, environment, name=name)
    if seeds is None:
        seeds = 5 if native else 3
    seeds = seed_numbers(seeds)
    if has_function((agent, by_port)):  # which is looked at next, before the runner would ask for devices
        prepare_devices(forced_devices() or len(seeds) * math.prod(map(len, (sweep or {}).values())))
    agent_name = registry.part_name(agent)
    check_ranges(agent, agent_name)
    for part in by_port.values():
        check_ranges(part, registry.short_name(part))
    check_networks(agent, spec)
    if is_scheduled(agent):
        for which in (0, -1):
            with_plain_numbers(agent, which).check(spec)
    swept = {key: [float(v) for v in values] for key, values in (sweep or {}).items()}
    numbers = [f.name for f in dataclasses.fields(agent) if isinstance(getattr(agent, f.name), float)]
    for key, values in swept.items():
        if is_schedule(getattr(agent, key, None)):
            raise ForageError(f"{key} follows a schedule in this run; sweep another number, or leave the schedule out.")
        if key not in numbers:
            raise ForageError(f"A sweep is over a number of the agent, not {key!r}{nearest(key, numbers)}")
        if not values or len(set(values)) != len(values):
            raise ForageError(f"A sweep takes one or more different values, as in {key}=0.0003,0.001; not {values}.")
    # In plain numbers, which the agent looks at: in the program they are traced.
    for setting in settings_of(swept) if swept else ():
        member = dataclasses.replace(agent, **setting)
        check_ranges(member, agent_name)
        with_plain_numbers(member).check(spec)
    steps_from = ""
    steps = None if steps is None else whole("steps", steps)
    if steps is None and offline:
        steps, steps_from = UPDATES, "each an update from the data set"
    if steps is None:
        steps, steps_from = default_steps(agent, name, spec, native, suggested=bool(why))
    check_steps(agent, spec, steps, offline)
    check_actions(evaluation_actions)
    against = default_opponent(environment, by_port["behaviour"]) if opponent is None else os.fspath(opponent)
    check_opponent(against, environment, spec)
    return Setup(
        name=name,
        environment=environment,
        environment_config=environment_config,
        spec=spec,
        agent=agent,
        **by_port,
        steps=steps,
        seeds=seeds,
        sweep=swept,
        why=why,
        settings_from=settings_from,
        left_out=lacks,
        steps_from=steps_from,
        evaluation_actions=evaluation_actions,
        visits=visits,
        opponent=against,
    )


def completed(agent: Agent, behaviour: Behaviour) -> Agent:
    """Return the agent with the options that go with a behaviour, for those that it leaves at `None`."""
    told = {name: value for name, value in behaviour.completes(agent).items() if getattr(agent, name) is None}
    return dataclasses.replace(agent, **told) if told else agent


def shortened(memory: Memory, agent: Agent, streams: int, transitions: int) -> Memory:
    """Return the same memory with no more places than a run of this many transitions can fill, in whole rollouts."""
    if isinstance(memory, Around):
        memory = memory.around(shortened(memory.inner, agent, streams, transitions))
    capacity = getattr(memory, "capacity", None)
    rollout = streams * agent.rollout_length
    fills = -(-max(transitions, agent.segment * streams) // rollout) * rollout
    if capacity is None or capacity <= fills:
        return memory
    shorter: dict[str, Any] = {"capacity": fills}
    return dataclasses.replace(memory, **shorter)


def from_config(
    config: dict[str, Any],
    environment: Any = None,
    data: str | os.PathLike[str] | None = None,
    where: str | os.PathLike[str] | None = "This configuration",
    **given: Any,
) -> Setup:
    """Return the setup that `Setup.config` wrote. Python objects must be given again.

    `given` are parts by port, `evaluation_actions` and `opponent`, if they are to replace the run's own (or `None`).
    `data`: the present path of the run's data set. `where`: the run's directory. Raise `ForageError` if it names code
    that is not known here; `where=None` does not check.
    """
    if where is not None:
        named = list(of_environment(environment)) if isinstance(environment, str) else []
        with stored(where, config, *named):
            return from_config(config, environment, data, None, **given)
    world = config["environment"]
    if environment is None and "id" not in world:
        raise ForageError(
            f"This run's environment was a Python object, {world['object']}; continue it from Python with "
            f"forage.resume(directory, environment=...)."
        )
    given = {name: value for name, value in given.items() if value is not None}
    parts: dict[str, Any] = {
        "evaluation_actions": config.get("evaluation_actions", "greedy"),
        "visits": config.get("visits", False),
        "opponent": config.get("opponent"),
        **given,
    }
    if data is not None:
        given["memory"] = parts["memory"] = registry.from_config(config["memory"]).moved(data)
    for port in ("agent", *CONTRACTS):
        if port in given:
            continue
        try:
            parts[port] = registry.from_config(config[port])
        except registry.PythonObject as error:
            raise ForageError(
                f"In this run {str(error).rstrip('.')}; continue it from Python with "
                f"forage.resume(directory, {port}=...)."
            ) from None
    setup = make_setup(
        parts.pop("agent"),
        world["id"] if environment is None else environment,
        steps=config["steps"],
        seeds=config["seeds"],
        environment_options=from_plain(world.get("options")) if environment is None else None,
        sweep=config["sweep"],
        wrap=world.get("wrap", ()),
        **parts,
    )
    seen = as_trained(config, setup.spec.observation_space)
    spec = (
        setup.spec if seen is setup.spec.observation_space else dataclasses.replace(setup.spec, observation_space=seen)
    )
    return dataclasses.replace(setup, left_out="", spec=spec)  # what the run was made of is all there
