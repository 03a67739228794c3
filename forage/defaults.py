"""What stands at a port when nothing is named, and the settings known to work well in an environment."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any, NamedTuple

from gymnasium import spaces

from forage.nn.encoders import is_image
from forage.nn.normalise import is_map
from forage.ports import Agent, Behaviour, Memory
from forage.registry import from_config, part_class, part_name
from forage.spaces import describe, is_bounded_box, seen
from forage.types import Spec


class Preset(NamedTuple):
    """Settings for one agent in one family of environments."""

    agent: str
    environment: str  # a pattern over ids
    steps: int  # for each seed
    settings: dict[str, Any]
    source: str
    parts: dict[str, dict[str, Any]] = {}  # other ports' parts, as in a run's configuration


TUNED = "tuned here on seeds 0 to 4"
ATARI = "Schulman et al. (2017), table 5, as in Huang et al. (2022)"
MUJOCO = "Huang et al. (2022), the continuous-control details"
DQN_MINATAR = "Young and Tian (2019), with Adam, a double Q target and an update of 64 every 16 steps"

SMALL_PPO = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8}
SMALL_IMAGES = {"num_envs": 64, "minibatches": 8, "learning_rate": 1e-3, "activation": "relu"}
ROBOT = {"epochs": 10, "minibatches": 32, "learning_rate": 3e-4, "entropy_coefficient": 0.0}
ROBOT |= {"normalise_observation": True}
MANY_ROBOTS = ROBOT | {"num_envs": 32, "rollout_length": 64}
NORMALISED = {"rewards": {"part": "normalise-return"}}
TEAM = {"learning_rate": 1e-3, "minibatches": 4}

PRESETS: tuple[Preset, ...] = (
    Preset("ppo", "CartPole-masked", 500_000, SMALL_PPO | {"memory_size": 64}, TUNED),
    Preset("ppo", "CartPole*", 100_000, SMALL_PPO, TUNED),
    Preset("ppo", "*:CartPole-v?", 100_000, SMALL_PPO, "as for Forage's own CartPole"),
    Preset("ppo", "Acrobot-v1", 200_000, SMALL_PPO, TUNED),
    Preset("ppo", "Pendulum-v1", 500_000, SMALL_PPO | {"discount": 0.95, "entropy_coefficient": 0.0}, TUNED),
    Preset(
        "ppo",
        "minatar:*",
        5_000_000,
        SMALL_IMAGES,
        "batch sizes of Lu et al. (2022), PureJaxRL; learning rate for a CNN",
    ),
    Preset(
        "ppo",
        "gymnasium:*Cheetah*",
        1_000_000,
        ROBOT | {"num_envs": 1, "rollout_length": 2048},
        MUJOCO,
        NORMALISED,
    ),
    Preset(
        "ppo",
        "gymnasium:ALE/*",
        10_000_000,
        {"clip": 0.1},
        ATARI,
        {"rewards": {"part": "scale", "low": -1.0, "high": 1.0}},
    ),
    Preset(
        "ppo",
        "envpool:Pong*",
        10_000_000,
        {"clip": 0.1},
        ATARI,
        {"rewards": {"part": "scale", "low": -1.0, "high": 1.0}},
    ),
    Preset(
        "dqn",
        "CartPole-masked",
        150_000,
        {"memory_size": 64, "num_envs": 4, "updates_per_rollout": 4, "batch_size": 32, "burn_in": 4, "unroll": 10},
        TUNED,
    ),
    Preset("dqn", "*CartPole*", 150_000, {}, TUNED),
    Preset("dqn", "Acrobot-v1", 100_000, {}, TUNED),
    Preset(
        "dqn",
        "minatar:*",
        5_000_000,
        {"num_envs": 16, "rollout_length": 1, "batch_size": 64, "n_step": 1, "target_update_interval": 8000}
        | {"learning_rate": 2.5e-4, "learning_starts": 5000, "dueling": False},
        DQN_MINATAR,
    ),
    Preset(
        "sac-discrete",
        "CartPole*",
        50_000,
        {"learning_rate": 1e-3, "batch_size": 128, "hidden_sizes": (64, 64), "target_entropy": 0.5, "polyak": 0.01}
        | {"num_envs": 1, "rollout_length": 1, "updates_per_rollout": 1},
        TUNED,
    ),
    Preset("ppo", "grid:*", 500_000, SMALL_IMAGES, "as for MinAtar; the usual 16 environments times four"),
    Preset("ppo", "jumanji:*", 1_000_000, SMALL_IMAGES, "as for MinAtar"),
    Preset("ppo", "brax:*", 1_000_000, MANY_ROBOTS, MUJOCO, NORMALISED),
    Preset("ppo", "playground:*", 1_000_000, MANY_ROBOTS, MUJOCO, NORMALISED),
    Preset("ppo", "jaxmarl:SMAX*", 3_000_000, TEAM | {"num_envs": 64}, "Rutherford et al. (2024), baselines, smaller"),
    Preset("ppo", "jaxmarl:MPE*", 1_000_000, TEAM | {"num_envs": 16}, "Rutherford et al. (2024), baselines"),
    Preset("sac", "Pendulum-v1", 20_000, {}, "Haarnoja et al. (2018), table 1"),
    Preset("td3", "Pendulum-v1", 20_000, {}, "Fujimoto et al. (2018), table 3"),
)


class Rule(NamedTuple):
    """Settings for one agent wherever the spec has some property; for environments without a preset."""

    agent: str
    what: str  # the property, as the start of a run says it
    fits: Callable[[Spec, bool], bool]  # of the spec, and whether the environment is native
    settings: dict[str, Any]
    source: str
    parts: dict[str, dict[str, Any]] = {}  # as a preset's


def is_picture(spec: Spec) -> bool:
    """Whether the observation is an image."""
    return is_image(seen(spec.observation_space))


STUDY = "benchmarks/results/DEFAULTS.md"
# The zoo of Stable-Baselines3 for MiniGrid.
MAPS = {"num_envs": 8, "rollout_length": 128, "minibatches": 16, "epochs": 10, "activation": "relu"}
MAPS |= {"learning_rate": 2.5e-4, "final_learning_rate": 1.0, "entropy_coefficient": 0.0, "normalise_observation": True}
# Stable-Baselines3's 2048 steps in minibatches of 64, from 8 environments.
GENERAL_PPO = {"num_envs": 8, "rollout_length": 256, "minibatches": 32}
GENERAL_PPO |= {"learning_rate": 3e-4, "final_learning_rate": 1.0, "epochs": 10, "entropy_coefficient": 0.0}

RULES: tuple[Rule, ...] = (
    Rule(
        "ppo", "small maps of bytes", lambda spec, native: is_map(seen(spec.observation_space)), MAPS, STUDY, NORMALISED
    ),
    Rule(
        "ppo",
        "images, stepped in JAX",
        lambda spec, native: native and is_picture(spec),
        SMALL_IMAGES,
        "as for MinAtar",
    ),
    Rule("ppo", "images", lambda spec, native: is_picture(spec), {}, ATARI),
    Rule(
        "ppo",
        "one number out of a few",
        lambda spec, native: isinstance(seen(spec.observation_space), spaces.Discrete),
        SMALL_PPO,
        STUDY,
    ),
    Rule("ppo", "vectors", lambda spec, native: True, GENERAL_PPO, STUDY),
)
"""The first that fits counts."""


def rule(agent: str, spec: Spec, native: bool) -> Rule | None:
    """The first rule that fits."""
    return next((r for r in RULES if r.agent == agent and r.fits(spec, native)), None)


class Chosen(NamedTuple):
    """What is laid under the settings that a person names, and where it is from."""

    settings: dict[str, Any]
    parts: dict[str, Any]  # by port
    why: str  # for the start of a run; empty where the agent's own defaults stand


def chosen(agent: str, environment: str, spec: Spec, native: bool, given: dict[str, Any]) -> Chosen:
    """The preset's settings where the environment has one, else those of the rule that fits its spec."""
    known = preset(agent, environment)
    if known is not None:
        parts = {port: from_config(config) for port, config in known.parts.items()}
        return Chosen(known.settings, parts, f"preset for {known.environment} ({known.source})")
    found = rule(agent, spec, native)
    if found is None:
        return Chosen({}, {}, "")
    parts = {port: from_config(config) for port, config in found.parts.items()}
    return Chosen(fitted(found.settings, given), parts, f"settings for {found.what} ({found.source})")


SHORTEST, MOST = 32, 256  # steps of a rollout of each environment, and minibatches, where many environments are named


def fitted(settings: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """A rule's settings of PPO beside what a person names of a rollout.

    A rollout keeps its number of transitions where other environments are named, and a minibatch its rows, as far as
    they divide: who steps 2 environments steps each four times as long as 8.
    """
    usual = part_class("agent", "ppo")()
    settings = {name: getattr(usual, name) for name in ("num_envs", "rollout_length", "minibatches")} | settings
    transitions = settings["num_envs"] * settings["rollout_length"]
    rows = transitions // settings["minibatches"]
    num_envs = given.get("num_envs", settings["num_envs"])
    least = min(SHORTEST, settings["rollout_length"])
    length = given.get("rollout_length", max(transitions // max(num_envs, 1), least))
    units, most = num_envs * length, max(min(num_envs * length // rows, MOST), 1)
    # With memory, minibatches are whole segments.
    units, most = (num_envs, min(most, 4)) if given.get("memory_size") else (units, most)
    minibatches = max((n for n in range(1, most + 1) if units % n == 0), default=1)
    return settings | {"num_envs": num_envs, "rollout_length": length, "minibatches": minibatches}


def preset(agent: str, environment: str) -> Preset | None:
    """The first preset whose pattern fits."""
    return next((p for p in PRESETS if p.agent == agent and fnmatch.fnmatchcase(environment, p.environment)), None)


def default_behaviour(agent: Agent) -> Behaviour:
    """The agent's usual one; off-policy agents that act for themselves begin at random."""
    cls = part_class("behaviour", agent.usual_behaviour)
    if agent.usual_behaviour == "own" and not agent.on_policy:
        return cls(random_steps=agent.learning_starts)
    return cls()


def default_memory(agent: Agent) -> Memory:
    """The last rollout on-policy; uniform replay off-policy."""
    return part_class("memory", "rollout" if agent.on_policy else "uniform")()


def suggest(spec: Spec, native: bool) -> tuple[str, str]:
    """An agent that suits an environment, and why."""
    continuous = is_bounded_box(spec.action_space)
    image = isinstance(seen(spec.observation_space), spaces.Box) and len(seen(spec.observation_space).shape or ()) == 3
    actions = describe(spec.action_space)
    if continuous and (not native or spec.name.startswith("Pendulum")):
        return "sac", f"{actions} actions are continuous and bounded, and SAC needs the fewest steps of them"
    if image and not native and isinstance(spec.action_space, spaces.Discrete):
        return "ppo", f"{actions} actions seen through images: PPO learns steadily from many environments at once"
    return "ppo", f"{actions} actions in an environment that is quick to step: PPO learns fastest by the clock"


def make_agent(name: str, environment: str, options: dict[str, Any], under: Chosen | None = None) -> Agent:
    """The agent called `name`, with `options` over what was chosen for it; otherwise over its preset alone."""
    cls = part_class("agent", name)
    known = preset(name, environment)
    settings = under.settings if under else known.settings if known else {}
    return cls(**(settings | options))


def default_steps(agent: Agent, environment: str) -> int:
    """How long to train when nobody says: the preset's steps."""
    known = preset(part_name(agent), environment)
    return known.steps if known else (500_000 if agent.on_policy else 100_000)
