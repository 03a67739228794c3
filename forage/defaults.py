"""What stands at a port when nothing is named, and the settings known to work well in an environment."""

from __future__ import annotations

import fnmatch
from typing import Any, NamedTuple

from gymnasium import spaces

from forage.ports import Agent, Behaviour, Memory
from forage.registry import fields, part_class, part_name
from forage.spaces import describe, is_bounded_box, seen
from forage.types import Spec


class Preset(NamedTuple):
    """Settings for one agent in one family of environments."""

    agent: str
    environment: str  # a pattern over ids
    steps: int  # for each seed
    settings: dict[str, Any]
    source: str


PRESETS: tuple[Preset, ...] = ()


def preset(agent: str, environment: str) -> Preset | None:
    """The first preset whose pattern fits."""
    return next((p for p in PRESETS if p.agent == agent and fnmatch.fnmatch(environment, p.environment)), None)


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


def make_agent(name: str, environment: str, options: dict[str, Any]) -> Agent:
    """The agent called `name` with its preset for `environment`, if there is one, and `options` over it."""
    cls = part_class("agent", name)
    known = preset(name, environment)
    settings = dict(known.settings) if known else {}
    return cls(**(settings | options))


def default_steps(agent: Agent, environment: str) -> int:
    """How long to train when nobody says: the preset's steps."""
    known = preset(part_name(agent), environment)
    return known.steps if known else (500_000 if agent.on_policy else 100_000)


def changed(agent: Agent) -> dict[str, Any]:
    """The agent's settings that are not its class's defaults."""
    return {f.name: getattr(agent, f.name) for f in fields(type(agent)) if getattr(agent, f.name) != f.default}
