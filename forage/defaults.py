"""What stands at a port when nothing is named, and the settings known to work well in an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gymnasium import spaces

from forage.nn.encoders import is_image
from forage.ports import Agent, Behaviour, Memory
from forage.presets import ATARI, PRESETS, SMALL_IMAGES, SMALL_PPO, Preset
from forage.registry import from_config, part_class, part_name
from forage.spaces import describe, is_bounded_box, seen
from forage.types import Spec


class Rule(NamedTuple):
    """Settings for one agent wherever the spec has some property; for environments without a preset."""

    agent: str
    what: str  # the property, as the start of a run says it
    fits: Callable[[Spec, bool], bool]  # of the spec, and whether the environment is native
    settings: dict[str, Any]
    source: str


def is_picture(spec: Spec) -> bool:
    """Whether the observation is an image."""
    return is_image(seen(spec.observation_space))


STUDY = "benchmarks/results/DEFAULTS.md"
GENERAL_PPO = {"learning_rate": 3e-4, "final_learning_rate": 1.0, "epochs": 10, "entropy_coefficient": 0.0}
ROLLOUT, ROWS = 2048, 64  # steps of a rollout, in all environments, and of a minibatch: Stable-Baselines3's

# All are PPO's so far, and `cut` is about its rollouts.
RULES: tuple[Rule, ...] = (
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
    return Chosen(cut(found.settings, given), {}, f"settings for {found.what} ({found.source})")


def cut(settings: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Settings of PPO with a rollout and minibatches that fit what a person names of them."""
    default = part_class("agent", "ppo")()
    num_envs = given.get("num_envs", settings.get("num_envs", default.num_envs))
    usual = default.rollout_length if "minibatches" in settings or not settings else max(ROLLOUT // max(num_envs, 1), 1)
    length = given.get("rollout_length", usual)
    rows = num_envs * length
    most = settings.get("minibatches", rows // ROWS if settings else default.minibatches)
    # With memory, minibatches are whole segments; without, of two transitions and more.
    units, most = (num_envs, min(most, 4)) if given.get("memory_size") else (rows, min(most, rows // 2))
    minibatches = max((n for n in range(1, most + 1) if units % n == 0), default=1)
    return settings | {"num_envs": num_envs, "rollout_length": length, "minibatches": minibatches}


def preset(agent: str, environment: str) -> Preset | None:
    """The first preset whose pattern fits."""
    return next((p for p in PRESETS if p.agent == agent and p.fits(environment)), None)


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
