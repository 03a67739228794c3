"""The configuration of a run, and the runner of its loop that is built from it; and back, to plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox
import jax
import numpy as np

from forage.config import part_data, registry
from forage.config.checks import (
    check_learning,
)
from forage.config.defaults import (
    usual_parts,
)
from forage.config.opponents import opponent_of
from forage.config.options import PORTS
from forage.config.references import load_references
from forage.config.saved import load_policy
from forage.core import prng
from forage.core.mesh import Devices, Shape, parse_mesh, prepare_devices, reading_for
from forage.core.ports import Agent, Behaviour, Environment, Evolver, Memory, Rewards, Starts, Tasks
from forage.core.schedule import is_scheduled, with_plain_numbers
from forage.core.specs import spec_to_config
from forage.core.sweep import members_of
from forage.core.types import Experience, ForageError, Spec
from forage.environments.checking import check_environment
from forage.loop.cluster.workers import NO_WORKERS, Workers
from forage.loop.device.evolution import EvolutionLoop
from forage.loop.device.host_scored import HostScoredRunner
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.programs import batch_seeds
from forage.loop.device.runner import DeviceRunner
from forage.loop.host.loop import HostOptions
from forage.loop.host.runner import HostRunner
from forage.loop.host.runner import vary as vary_learner
from forage.loop.host.starts import HostedEnvironment
from forage.loop.learner import Learner
from forage.loop.needs import check_names, check_starts
from forage.loop.offline.loop import OfflineLoop
from forage.loop.runner import Numbers, Runner
from forage.memory.around import MemoryWrapper, innermost
from forage.memory.dataset import DataSet, OpenedDataSet, check_held_out
from forage.memory.mixed import OpenedMixedReplay
from forage.starts.reset import Reset
from forage.tasks.same import Same

ONLINE = ", or go on online from such a run with --memory mixed --memory.data FILE"
ALWAYS_STORED = (
    *("evaluation_episodes", "evaluation_every", "checkpoint_seconds", "track", "devices", "devices_per_seed"),
)
SELDOM_STORED = ("mesh", "step_timeout", "stop_at", "keep", "keep_every", "parent", "imported", "ends")
"""Settings that a run's config.json has always, and those that it has where they are set."""


@dataclasses.dataclass
class RunConfig:
    """The configuration of a run: its environment, its agent, all parts and settings.

    The agent and the parts are complete: with presets, defaults, and the hashes of their references.
    """

    name: str  # of the environment
    environment: Any  # an `Environment`, or a function that builds a batch of it on the host from a number; `None`: the
    # run learns from a data set, and nothing is played
    environment_config: dict[str, Any]  # plain data that makes it again, or a description
    spec: Spec
    agent: Agent
    behaviour: Behaviour
    rewards: Rewards
    memory: Memory
    tasks: Tasks
    starts: Starts
    steps: int  # of each seed; updates, in a run from a data set
    seeds: list[int]
    sweep: dict[str, list[float]]
    evaluation_actions: str = "auto"  # or greedy, or sampled
    visits: bool = False  # visits are counted on the environment's map
    opponent: str | None = None  # who plays the other seats in evaluation: random, perfect or a run's directory

    # Reasons, shown at the start
    why: str = ""  # this agent, when nobody named one
    settings_from: str = ""  # the preset or rule behind the agent's settings
    left_out: str = ""  # what of it an agent that was given as an object lacks
    steps_from: str = ""  # so many steps, when nobody said how many
    reading_from: Sequence[str] = ()  # what was guessed about the columns of a table

    # Settings that do not decide what is learned
    evaluation_episodes: int | None = None  # of each seed, for a score
    evaluation_every: int | None = None  # steps of each seed between evaluations during training
    checkpoint_seconds: float = 30.0
    track: Sequence[str] = ()
    devices: int | None = None
    devices_per_seed: int = 1
    mesh: str | None = None  # of devices that share a language model, such as data:2,model:4
    workers: int | str = 0
    worker_threads: int = 1
    async_envs: bool = False
    policy_lag: int | None = None
    step_timeout: float | None = None
    stop_at: float | None = None  # the score at which training stops
    keep: str | None = None  # best
    keep_every: int | None = None  # steps between agents that are kept
    parent: dict[str, Any] | None = None  # the run that it started from; see `Inheritance.record`
    imported: dict[str, Any] | None = None  # the model of another library that it was made of
    evaluation_spec: Spec | None = None  # of the environment, if a run learns from data whose spaces are their own
    ends: dict[str, Any] | None = None  # returns between which scores on a data set are normalised

    def __post_init__(self) -> None:
        self.native = isinstance(self.environment, Environment)
        """Whether the environment is stepped in JAX."""
        self.offline = self.memory.offline
        """Whether the run learns from a data set, and its steps are updates."""
        self.on_device = self.native or self.offline
        """Whether the loop runs on the device, wherever evaluation episodes are played."""
        self.scored = self.environment is not None
        """Whether episodes are played for a score."""
        self.members = members_of(self.sweep, self.seeds)
        """The seed of each member of the run, and its settings in a sweep."""
        self.settings = len(self.members) // max(1, len(self.seeds))
        """The number of settings of a sweep; without one, 1."""
        self.names = {port: registry.short_name(getattr(self, port)) for port in ("agent", *PORTS)}
        """The names of the agent and the parts, by port, as sentences say them."""

    def check_played(self, directory: Any) -> None:
        """Raise `ForageError` for a run that has no environment to play in."""
        if not self.scored:
            raise ForageError(
                f"{directory} learned from data without an environment, so there is none to play in; train with "
                f"--evaluate ENVIRONMENT, or estimate its value from data: forage estimate {directory} --data FILE."
            )

    @property
    def score_spec(self) -> Spec:
        """Return the spec of the environment that evaluation episodes are played in."""
        return self.evaluation_spec or self.spec

    @property
    def score_reward(self) -> str | None:
        """Return the reward of a score, if the environment has several: `1 treasure + 0.1 time`."""
        names = self.spec.reward_names
        if not names:
            return None
        weights, steps = self.rewards.score(np.eye(len(names)), self.spec), np.arange(1.0, len(names) + 1)
        if not np.isclose(self.rewards.score(steps[None], self.spec)[0], steps @ weights):
            return f"the score of {self.names['rewards']}"
        return " + ".join(f"{weight:g} {name}" for weight, name in zip(weights, names, strict=True) if weight) or "0"

    def learner(self, learns: bool = True) -> Learner:
        """Build the learner with its memory. Raise `ForageError` if its parts do not fit. `learns`: as in `loop`."""
        learner = self.build_learner(learns)
        learner.check(self.environment if isinstance(self.environment, Environment) else None)
        self.check_learner(learner)
        return learner

    def build_learner(self, learns: bool) -> Learner:
        """Build the learner with its memory, before its parts are compared."""
        if isinstance(self.agent, Evolver):
            self.check_evolver()
        rows = 1 if self.agent.joint else self.spec.num_agents  # that a memory has for a step of one environment
        memory = shorten_memory(self.memory, self.agent, self.agent.num_envs * rows, self.steps * rows)
        if learns:
            opened = memory.load(self.spec)
            check_held_out(memory, opened, self.names["memory"])
            memory = self.prepare_memory(opened)
        parts = (self.agent, self.behaviour, self.rewards, memory)
        agent, behaviour, rewards, memory = load_references(parts, self.spec, learns)
        return Learner(agent, behaviour, rewards, memory, self.spec)

    def check_learner(self, learner: Learner) -> None:
        """Raise `ForageError` for several rewards without a score, or a run that ends before it learns."""
        _ = self.score_reward
        if not self.offline:
            check_learning(learner, self.steps)

    def prepare_memory(self, memory: Memory) -> Memory:
        """Return the memory with the agent's training data: the best episodes of a data set, or the rewards'
        returns.
        """
        agent, rewards = with_plain_numbers(self.agent), self.rewards
        told = agent.returns or agent.contexts
        if not (told or agent.best_episodes < 1):
            return memory
        name = self.names["agent"]
        tells = isinstance(memory, OpenedMixedReplay) and agent.fine_tunes and not agent.contexts
        if type(memory) is not OpenedDataSet and not tells:
            raise ForageError(
                f"{name} learns from whole episodes of a data set, which {self.names['memory']} does not "
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
                f"{name} learns from returns that are computed once, and {self.names['rewards']} changes its "
                f"rewards as it learns; use --rewards environment, scale or shift."
            )
        if jax.tree.leaves(state):  # rewards with a state are refused
            return memory

        def relabel_rewards(data: Experience) -> np.ndarray:
            told = rewards.relabel(state, jax.tree.map(lambda x: x[None], data)).reward[0]
            return np.asarray(told, np.float64)

        if isinstance(memory, OpenedMixedReplay):
            return memory.with_returns(agent, relabel_rewards(memory.data_rows), self.spec.horizon)
        found = memory.with_returns(agent, relabel_rewards(memory.data))
        if memory.validation is None:
            return found
        held = memory.validation.tell_returns(agent, relabel_rewards(memory.validation.data))
        return dataclasses.replace(found, validation=held, validation_starts=None if told else memory.validation_starts)

    def loop(self, learns: bool = True) -> DeviceLoop:
        """Build the loop on the device. Raise `ForageError` if its parts do not fit.

        Without `learns` it only acts, and neither data sets nor demonstrations are read.
        """
        learner = self.build_learner(learns)
        if not isinstance(self.environment, Environment):
            loop = OfflineLoop(learner, None, self.tasks, self.starts)
            loop.check()
            self.check_learner(learner)
            return loop
        starts = self.starts.with_teacher(self.environment, load_policy)
        kind = OfflineLoop if self.offline else EvolutionLoop if isinstance(self.agent, Evolver) else DeviceLoop
        opponent = None if self.opponent is None else opponent_of(self.opponent, self.environment, self.spec)
        loop = kind(learner, self.environment, self.tasks, starts, self.visits, opponent)
        loop.check()
        self.check_learner(learner)
        if not is_ours(self.environment):
            check_environment(self.environment, self.name)
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
        if self.on_device:
            if workers.count:
                where = "takes no environment steps" if self.offline else "is stepped on the device"
                raise ForageError(f"{self.name} {where}, where no workers are needed; leave them out.")
            if hosts == 1:  # several have settled on theirs
                prepare_devices(len(seeds), devices)
            with reading_for(devices):
                varied = batch_seeds(self.loop(learns), numbers)
            if self.native or self.environment is None:
                return DeviceRunner(varied, list(seeds), self.steps, devices, hosts > 1)
            return HostScoredRunner(varied, list(seeds), self.steps, devices, hosts > 1, play=self.host_player)
        if hosts > 1:
            raise ForageError(f"{self.name} runs on one host; several share native environments, such as CartPole-v1.")
        assert self.environment is not None and not isinstance(self.environment, Environment)
        with reading_for(devices):
            learners = vary_learner(self.learner(), numbers, len(seeds))
        self.check_host()
        for learner in learners if numbers else ():
            learner.check()
        shape = devices if isinstance(devices, Shape) and devices.of_seed > 1 else None
        way = self.way._replace(shape=shape)
        return HostRunner(learners, self.environment, list(seeds), self.steps, way, workers)

    def host_player(self, seeds: list[int], shape: Shape | None = None) -> HostRunner:
        """Build a runner that plays evaluation episodes on the host with agents that it is given.

        `shape`: of the mesh of devices that share each of them.
        """
        assert self.environment is not None and not isinstance(self.environment, Environment)
        spec = self.score_spec
        inner = innermost(self.memory)
        memory = DataSet(inner.file) if isinstance(inner, DataSet) and not self.agent.texts else self.memory
        agent, behaviour, rewards, memory = load_references(
            (with_plain_numbers(self.agent), self.behaviour, self.rewards, memory), spec, learns=False
        )
        learner = Learner(agent, behaviour, rewards, memory, spec)
        return HostRunner([learner] * len(seeds), self.environment, seeds, self.steps, HostOptions(shape=shape))

    @property
    def asked_devices(self) -> Devices:
        """Return the devices that the run was asked to use."""
        return self.devices if self.mesh is None else parse_mesh(self.mesh)

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
            why = f" with {self.names['behaviour']}" if self.behaviour.on_host else ""
            raise ForageError(
                f"{self.name} runs on the host{why}, where episodes begin as it says or with --starts "
                f"{' or '.join(starts_on_host())}, and tasks choose by number; other tasks and starts need a native "
                f"environment such as CartPole-v1{' and a behaviour that does not intervene' if why else ''}."
            )
        if not (same or reset or self.starts.repeats):
            raise ForageError(
                f"{self.names['tasks']} chooses the problem of each episode, and "
                f"{self.names['starts']} lets episodes go on where another has been; use --starts reset or "
                f"groups."
            )
        assert not isinstance(self.environment, Environment)
        batch = self.environment(1)
        try:
            starts = self.starts
            tasks = None if same else self.tasks
            world = HostedEnvironment.from_environment(batch, self.spec, starts.repeats, tasks, starts.follows_steps)
            check_starts(self.agent, self.spec, world, self.tasks, starts)
            if self.starts.repeats and not batch.seeded:
                raise ForageError(
                    f"{self.name} does not begin alike for the same seed, as {self.names['starts']} would "
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
        name = self.names["agent"]
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

    def full_config(self) -> dict[str, Any]:
        """Return all of it as plain data, as a run's config.json has it."""
        settings: dict[str, Any] = {name: getattr(self, name) for name in ALWAYS_STORED}
        if self.host_workers.count:
            settings |= {
                name: getattr(self, name) for name in ("workers", "worker_threads", "async_envs", "policy_lag")
            }
        seldom = {name: getattr(self, name) for name in SELDOM_STORED}
        return self.config() | settings | {name: value for name, value in seldom.items() if value is not None}

    @property
    def host_workers(self) -> Workers:
        """Return the workers that step its environments."""
        return Workers.parse(self.workers, self.worker_threads, self.async_envs, self.policy_lag, self.step_timeout)

    def config(self) -> dict[str, Any]:
        """Return the environment, the parts and the settings of learning as plain data; see `from_config`."""
        return {
            "environment": self.environment_config,
            **{port: part_data.to_config(getattr(self, port)) for port in ("agent", *PORTS)},
            "steps": self.steps,
            "seeds": self.seeds,
            "sweep": self.sweep,
            "evaluation_actions": self.evaluation_actions,
            "visits": self.visits,
            "opponent": self.opponent,
            "spec": spec_to_config(self.spec),
        }


def is_ours(environment: Environment) -> bool:
    """Return whether an environment and those within it are Forage's own, whose tests hold the contract."""
    within = [value for value in vars(environment).values() if isinstance(value, Environment)]
    return type(environment).__module__.startswith("forage.") and all(map(is_ours, within))


def shorten_memory(memory: Memory, agent: Agent, streams: int, transitions: int) -> Memory:
    """Return the same memory with no more places than a run of this many transitions can fill, in whole rollouts."""
    if isinstance(memory, MemoryWrapper):
        memory = memory.wrap(shorten_memory(memory.inner, agent, streams, transitions))
    capacity = getattr(memory, "capacity", None)
    rollout = streams * agent.rollout_length
    fills = -(-max(transitions, agent.segment * streams) // rollout) * rollout
    if capacity is None or capacity <= fills:
        return memory
    shorter: dict[str, Any] = {"capacity": fills}
    return dataclasses.replace(memory, **shorter)


def starts_on_host() -> list[str]:
    """Return the names of the starts that work on the host, besides a reset."""
    return [name for name in registry.parts("starts") if registry.part_class("starts", name).on_host]
