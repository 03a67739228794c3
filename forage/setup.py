"""From names and options to the parts of a run, and to the road that runs it; and back, to plain data."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np

from forage import registry, spaces
from forage.defaults import default_behaviour, default_memory, make_agent, suggest
from forage.environments import HostFactory, make, spec_of
from forage.environments.host import HostEnvironment
from forage.experiment import DeviceRoad, Experiment, Learner, vary
from forage.host import HostRoad
from forage.ports import Agent, Behaviour, Environment, Memory, Rewards, Starts, Tasks
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same
from forage.types import ForageError, Spec

Road = DeviceRoad | HostRoad


@dataclasses.dataclass
class Setup:
    """Everything that decides what a run does."""

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

    @property
    def native(self) -> bool:
        return isinstance(self.environment, Environment)

    @property
    def members(self) -> list[dict[str, Any]]:
        """What sets each member of the run apart: its seed, and its settings where there is a sweep."""
        settings = [dict(zip(self.sweep, values, strict=True)) for values in itertools.product(*self.sweep.values())]
        return [{"seed": seed, **setting} for setting in settings for seed in self.seeds]

    def road(self) -> Road:
        """Builds the loop. Raises `ForageError` where the parts do not fit."""
        learner = Learner(self.agent, self.behaviour, self.rewards, self.memory, self.spec)
        learner.check()
        members = self.members
        seeds = [member["seed"] for member in members]
        if isinstance(self.environment, Environment):
            prepare_devices(len(members))
            experiment = Experiment(learner, self.environment, self.tasks, self.starts)
            values = {f"learner.agent.{name}": jnp.array([m[name] for m in members]) for name in self.sweep}
            return DeviceRoad(vary(experiment, values), seeds, self.steps)
        if not (isinstance(self.tasks, Same) and isinstance(self.starts, Reset)):
            raise ForageError(
                f"{self.name} runs on the host, where episodes begin as it says; other tasks and starts need a "
                f"native environment such as CartPole-v1."
            )
        learners = []
        for member in members:
            agent = dataclasses.replace(self.agent, **{name: member[name] for name in self.sweep})
            learners.append(equinox.tree_at(lambda learner: learner.agent, learner, agent))
        return HostRoad(learners, self.environment, seeds, self.steps)

    def config(self) -> dict[str, Any]:
        """Plain data from which `from_config` makes the same setup."""
        ports = ("agent", "behaviour", "rewards", "memory", "tasks", "starts")
        return {
            "environment": self.environment_config,
            **{port: registry.to_config(getattr(self, port)) for port in ports},
            "steps": self.steps,
            "seeds": self.seeds,
            "sweep": self.sweep,
            "spec": {
                "name": self.spec.name,
                "observation_space": spaces.to_json(self.spec.observation_space),
                "action_space": spaces.to_json(self.spec.action_space),
                "reward_names": list(self.spec.reward_names),
                "horizon": None if self.spec.horizon is None else int(self.spec.horizon),
            },
        }


def prepare_devices(members: int) -> None:
    """On CPU, asks for a device for each member, so that all cores work on seeds. Must precede JAX's first use."""
    try:
        jax.config.update("jax_num_cpu_devices", min(members, 64))
    except RuntimeError:
        pass  # JAX is in use already: the members share the devices there are


def resolve_environment(given: Any, options: dict[str, Any]) -> tuple[str, Any, dict[str, Any]]:
    """Returns the environment's name, the environment (or a function that builds a batch of it), and its config."""
    if isinstance(given, str):
        made = make(given, **options)
        name = made.id if isinstance(made, HostFactory) else given
        return name, made.build if isinstance(made, HostFactory) else made, {"id": given, "options": options}
    if options:
        raise ForageError("Options of an environment go with its id; an object already has its own.")
    if isinstance(given, HostFactory):
        return given.id, given.build, {"id": given.id, "options": dict(given.options)}
    if isinstance(given, Environment):
        return type(given).__name__, given, {"object": repr(type(given))}
    if isinstance(given, type):
        target = f"{given.__module__}:{given.__qualname__}"
        return resolve_environment(target, {})
    if callable(given):
        return getattr(given, "__name__", "environment"), given, {"object": repr(given)}
    raise ForageError(
        f"An environment is an id such as CartPole-v1, a forage Environment, a class, or a function from a number of "
        f"environments to a HostEnvironment; not a {type(given).__name__}."
    )


def environment_spec(name: str, environment: Any) -> Spec:
    if isinstance(environment, Environment):
        return spec_of(environment, name)
    batch = environment(1)
    batch.close()
    return batch.spec


def make_setup(
    agent: Agent | str | None,
    environment: Any,
    *,
    steps: int | None = None,
    seeds: int | Sequence[int] | None = None,
    agent_options: dict[str, Any] | None = None,
    environment_options: dict[str, Any] | None = None,
    behaviour: Behaviour | None = None,
    rewards: Rewards | None = None,
    memory: Memory | None = None,
    tasks: Tasks | None = None,
    starts: Starts | None = None,
    sweep: dict[str, Sequence[float]] | None = None,
    why: str = "",
) -> Setup:
    """Fills in what was not said. Raises `ForageError` for what cannot be."""
    from forage.defaults import default_steps

    name, environment, environment_config = resolve_environment(environment, environment_options or {})
    spec = environment_spec(name, environment)
    native = isinstance(environment, Environment)
    if agent is None:
        agent, why = suggest(spec, native)
    if isinstance(agent, str):
        agent = make_agent(agent, name, agent_options or {})
    if seeds is None:
        seeds = 5 if native else 3
    seeds = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not seeds or len(set(seeds)) != len(seeds):
        raise ForageError(f"Seeds are one or more different numbers, not {seeds}.")
    sweep = {key: [float(v) for v in values] for key, values in (sweep or {}).items()}
    numbers = [f.name for f in registry.fields(type(agent)) if isinstance(getattr(agent, f.name), float)]
    for key in sweep:
        if key not in numbers:
            raise ForageError(f"A sweep is over a number of the agent, not {key!r}{registry.nearest(key, numbers)}")
    steps = default_steps(agent, name) if steps is None else steps
    if steps < 1:
        raise ForageError(f"A run takes 1 step or more, not {steps}.")
    return Setup(
        name=name,
        environment=environment,
        environment_config=environment_config,
        spec=spec,
        agent=agent,
        behaviour=behaviour or default_behaviour(agent),
        rewards=rewards or EnvironmentReward(),
        memory=memory or default_memory(agent),
        tasks=tasks or Same(),
        starts=starts or Reset(),
        steps=steps,
        seeds=seeds,
        sweep=sweep,
        why=why,
    )


def from_config(config: dict[str, Any], environment: Any = None) -> Setup:
    """The setup that `Setup.config` wrote. An environment that was an object must be given again."""
    stored = config["environment"]
    if environment is None and "id" not in stored:
        raise ForageError(
            f"This run's environment was a Python object, {stored['object']}; continue it from Python with "
            f"forage.resume(directory, environment=...)."
        )
    ports = ("agent", "behaviour", "rewards", "memory", "tasks", "starts")
    parts = {port: registry.from_config(config[port]) for port in ports}
    return make_setup(
        parts.pop("agent"),
        stored["id"] if environment is None else environment,
        steps=config["steps"],
        seeds=config["seeds"],
        environment_options=stored.get("options") if environment is None else None,
        sweep=config["sweep"],
        **parts,
    )


def spec_from_config(config: dict[str, Any]) -> Spec:
    stored = config["spec"]
    return Spec(
        stored["name"],
        spaces.from_json(stored["observation_space"]),
        spaces.from_json(stored["action_space"]),
        tuple(stored["reward_names"]),
        horizon=stored["horizon"],
    )


def to_float(values: Any) -> list[float | None]:
    """Numbers for JSON, one for each member; what is not a number becomes null."""
    return [float(v) if np.isfinite(v) else None for v in np.asarray(values, float).reshape(-1)]
