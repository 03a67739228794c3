"""The default parts of the ports, and the settings known to work well in an environment."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from forage.config.part_data import from_config
from forage.config.part_options import fields
from forage.config.presets import ATARI, NORMALISED, SMALL_IMAGES, SMALL_PPO, Preset, presets_of
from forage.config.registry import name_of_target, part_class, part_name, target_of
from forage.core.ports import Agent, Behaviour, Memory, Rewards, Starts
from forage.core.spaces import MixedSpace, Tokens, describe_space, is_bounded_box, observation_part
from forage.core.types import Spec
from forage.nn.encoders import is_image
from forage.nn.layers import is_large
from forage.nn.normalise import is_map, norms_of
from forage.rewards.bonuses.base import Bonus
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same


class Rule(NamedTuple):
    """Settings for one agent in all environments with some property of the spec but without a preset."""

    agent: str
    what: str  # the property, as the start of a run says it
    fits: Callable[[Spec, bool], bool]  # of the spec, and whether the environment is native
    settings: dict[str, Any]
    source: str
    parts: dict[str, dict[str, Any]] = {}  # as a preset's


def is_picture(spec: Spec) -> bool:
    """Return whether the observation is an image."""
    return is_image(observation_part(spec.observation_space))


def reaches(spec: Spec) -> float:
    """Return half of the widest range of a continuous action, in its own units; 0 if no action has two bounds."""
    box = spec.action_space
    if not isinstance(box, spaces.Box):
        return 0.0
    half = (box.high.astype(float) - box.low.astype(float)) / 2
    return float(np.max(half, where=np.isfinite(half), initial=0.0))


STUDY = "benchmarks/results/DEFAULTS.md"
# The zoo of Stable-Baselines3 for MiniGrid.
SMALL = {"num_envs": 8, "rollout_length": 128, "minibatches": 16, "epochs": 10}
SMALL |= {"learning_rate": 2.5e-4, "final_learning_rate": 1.0, "entropy_coefficient": 0.0}
MAPS = SMALL | {"normalise_observation": True}
# Stable-Baselines3's 2048 steps in minibatches of 64, from 8 environments.
GENERAL_PPO = {"num_envs": 8, "rollout_length": 256, "minibatches": 32}
GENERAL_PPO |= {"learning_rate": 3e-4, "final_learning_rate": 1.0, "epochs": 10, "entropy_coefficient": 0.0}

RULES: tuple[Rule, ...] = (
    Rule(
        "ppo",
        "small maps of bytes",
        lambda spec, native: is_map(observation_part(spec.observation_space)),
        MAPS,
        STUDY,
        NORMALISED,
    ),
    Rule(
        "ppo",
        "images, stepped in JAX",
        lambda spec, native: native and is_picture(spec),
        SMALL_IMAGES,
        "as for MinAtar",
    ),
    Rule(
        "ppo",
        "small images",
        lambda spec, native: is_picture(spec) and not is_large(observation_part(spec.observation_space)),
        SMALL | {"activation": "relu"},
        STUDY,
        NORMALISED,
    ),
    Rule("ppo", "images", lambda spec, native: is_picture(spec), {}, ATARI),
    Rule(
        "ppo",
        "one number out of a few",
        lambda spec, native: isinstance(observation_part(spec.observation_space), spaces.Discrete),
        SMALL_PPO,
        STUDY,
    ),
    Rule(
        "ppo",
        "vectors and actions beyond [-1, 1]",
        lambda spec, native: reaches(spec) > 1,
        GENERAL_PPO | {"initial_log_std": math.log(0.5)},
        STUDY,
        NORMALISED,
    ),
    Rule("ppo", "vectors", lambda spec, native: True, GENERAL_PPO, STUDY, NORMALISED),
)
"""The first that fits counts."""


def rule(agent: str, spec: Spec, native: bool) -> Rule | None:
    """Return the first rule that fits."""
    return next((r for r in RULES if r.agent == agent and r.fits(spec, native)), None)


class Defaults(NamedTuple):
    """Default settings below those that a user names, and their source."""

    settings: dict[str, Any]
    parts: dict[str, Any]  # by port
    why: str  # for the start of a run; empty where the agent's own defaults stand


NO_DEFAULTS = Defaults({}, {}, "")


def choose_defaults(
    agent: str, environment: str, spec: Spec, native: bool, given: dict[str, Any], cls: type | None = None
) -> Defaults:
    """Return the settings of the environment's preset if it has one, else those of the rule that fits its spec.

    `cls`: the agent's class, if it is loaded already.
    """
    cls = cls or part_class("agent", agent)
    named = nearest_named(agent, cls)
    of = "" if named.agent == agent else f"{named.agent}'s "
    known = preset(named.agent, environment)
    if known is not None:
        why = f"{of}preset for {known.pattern(environment)} ({known.source})"
        return Defaults(named.without_own(known.settings), build_parts(known.parts, given), why)
    found = rule(named.agent, spec, native)
    if found is None:
        return join_defaults(whole_episodes(cls, spec, given), of_checkpoint(cls, given))
    why = f"{of}settings for {found.what} ({found.source})"
    settings = named.without_own(fit_settings(found.settings, named.own_values | given))
    return Defaults(settings, build_parts(found.parts, given), why)


class NamedAgent(NamedTuple):
    """The named agent whose defaults an agent takes."""

    agent: str
    own_values: dict[str, Any]  # attributes that a class of a person's own sets itself, which go before those defaults

    def without_own(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the settings that the agent does not set itself."""
        return {name: value for name, value in settings.items() if name not in self.own_values}


def nearest_named(agent: str, cls: type) -> NamedAgent:
    """Return the named agent whose defaults an agent takes: itself, or the nearest that its class inherits from.

    So a change of PPO in a person's own file is compared with PPO under the same settings.
    """
    if target_of("agent", agent):
        return NamedAgent(agent, {})
    own: dict[str, Any] = {}
    for base in cls.__mro__:
        if name := name_of_target(f"{base.__module__}:{base.__qualname__}"):
            return NamedAgent(name, own)
        own = {**vars(base), **own}
    return NamedAgent(agent, {})


def missing_settings(agent: Agent, environment: str, spec: Spec, native: bool, given: Collection[str]) -> str:
    """Describe the settings of an agent's name that an object lacks here; empty if it lacks none.

    An object does not show which options were set explicitly, so it keeps its class's defaults. `given`: ports with a
    part.
    """
    name, cls = part_name(agent), type(agent)
    is_own = target_of("agent", name) is None
    under = choose_defaults(name, environment, spec, native, {}, cls)
    usual = {field.name: field.default for field in fields(cls)}
    lost = [
        f"{field.replace('_', ' ')} {value}"
        for field, value in under.settings.items()
        if value != usual[field] == getattr(agent, field)
    ]
    lost += [f"{port} {part_name(part)}" for port, part in under.parts.items() if port not in given]
    if not lost:
        return ""
    named = f"'file.py:{cls.__name__}'" if is_own else repr(name)
    return (
        f"{cls.__name__ if is_own else name} as an object keeps its class's defaults, without "
        f"{'' if is_own else 'the '}{under.why}: {', '.join(lost)}; agent={named} with agent_options has both"
    )


def whole_episodes(cls: type, spec: Spec, given: dict[str, Any]) -> Defaults:
    """Rollouts as long as the longest episode, for agents that learn from whole ones."""
    if not cls.whole_episodes or spec.horizon is None or "rollout_length" in given:
        return NO_DEFAULTS
    long = f"{spec.horizon:,} step{'s' * (spec.horizon > 1)}"
    return Defaults({"rollout_length": spec.horizon}, {}, f"rollouts as long as an episode can be, {long}")


def of_arrays(agent: str, spec: Spec, in_memory: bool, given: dict[str, Any]) -> Defaults:
    """Return standardised observations for an agent that learns from arrays without an environment.

    Columns of a table are standardised as they are read. A folder of arrays is never looked at as a whole.
    """
    cls = part_class("agent", agent)
    option = next((field for field in fields(cls) if field.name == "normalise_observation"), None)
    if not (cls.offline and in_memory) or spec.columns is not None or option is None or option.default:
        return NO_DEFAULTS
    if option.name in given or norms_of(observation_part(spec.observation_space), maps=True) is None:
        return NO_DEFAULTS
    return Defaults({option.name: True}, {}, "observations standardised by the data")


ADAPTERS_RATE, WARMUP = 1e-4, 0.1
"""The learning rate of adapters of a downloaded model, and the share of the run in which a rate rises."""


def of_checkpoint(cls: type, given: dict[str, Any]) -> Defaults:
    """Return the learning rate of a language agent that begins from a downloaded model, and its warm-up.

    The agents' own rate is for models of a million weights; TRL 1.16 has 1e-6 for GRPO and DPO, 2e-5 for supervised
    fine-tuning, and 1e-4 for adapters.
    """
    rate, model = getattr(cls, "checkpoint_rate", None), given.get("model")
    if rate is None or not isinstance(model, str):
        return NO_DEFAULTS
    from forage.nn.language.peft import split_source  # JAX's networks, which no other agent's defaults need

    if not is_checkpoint(split_source(model)[0]):
        return NO_DEFAULTS
    settings = {"learning_rate": ADAPTERS_RATE if given.get("rank") else rate, "warmup_share": WARMUP}
    return Defaults(settings, {}, "a learning rate for a downloaded model, with warm-up (TRL 1.16)")


def is_checkpoint(path: Path) -> bool:
    """Return whether a directory holds a transformer that no run of Forage wrote."""
    known = any((path / name).exists() for name in ("config.json", "adapter_config.json"))
    return known and not (path / "agent.npz").exists()


def join_defaults(one: Defaults, other: Defaults) -> Defaults:
    """Return the settings of two rules that have none in common."""
    why = "; ".join(filter(None, (one.why, other.why)))
    return Defaults(one.settings | other.settings, one.parts | other.parts, why)


def build_parts(parts: dict[str, dict[str, Any]], given: dict[str, Any]) -> dict[str, Any]:
    """Return the parts in configurations, by port; those with a discount take the agent's if it is given."""
    ahead = {"discount": given["discount"]} if "discount" in given else {}
    return {port: from_config(c | (ahead if "discount" in c else {})) for port, c in parts.items()}


SHORTEST, MOST = 32, 256  # steps of a rollout of each environment, and minibatches, where many environments are named


def fit_settings(settings: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return a rule's settings of PPO adapted to a user's rollout options.

    A rollout keeps its number of transitions under another number of environments, and a minibatch its rows, as far as
    they divide: 2 environments are stepped four times as long as 8.
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
    units, most = (num_envs, min(most, 4)) if given.get("gru_size") else (units, most)
    minibatches = max((n for n in range(1, most + 1) if units % n == 0), default=1)
    return settings | {"num_envs": num_envs, "rollout_length": length, "minibatches": minibatches}


def preset(agent: str, environment: str) -> Preset | None:
    """Return the first preset with a matching pattern."""
    return next((one for one in presets_of(agent) if one.pattern(environment)), None)


def default_behaviour(agent: Agent) -> Behaviour:
    """Return the agent's usual one; off-policy agents that act for themselves begin at random."""
    cls = part_class("behaviour", agent.usual_behaviour)
    if agent.usual_behaviour == "policy" and not agent.on_policy and agent.begins_at_random:
        return cls(random_steps=agent.learning_starts)
    return cls()


def default_starts(agent: Agent) -> Starts:
    """Return the agent's usual starts, in groups of the size that it compares; the environment's own by default."""
    if not agent.usual_starts:
        return Reset()
    size = {"size": agent.group} if agent.group > 1 else {}
    return part_class("starts", agent.usual_starts)(**size, **agent.starts_options)


def default_memory(agent: Agent) -> Memory:
    """Return the agent's usual memory; by default, the last rollout on-policy and uniform replay off-policy."""
    return part_class("memory", agent.usual_memory or ("rollout" if agent.on_policy else "uniform"))()


class Suggestion(NamedTuple):
    """The default agent for environments of some kind."""

    agent: str
    fits: Callable[[Spec, bool], bool]  # of the spec, and whether the environment is native
    why: str  # after its actions are named: what the start of a run says


def is_bounded(spec: Spec) -> bool:
    """Return whether actions are numbers with bounds, as SAC and TD3 need them."""
    return is_bounded_box(spec.action_space)


SUGGESTIONS: tuple[Suggestion, ...] = (
    Suggestion(
        "grpo",
        lambda spec, native: isinstance(spec.action_space, Tokens),
        "are texts, of which GRPO compares several to one prompt",
    ),
    Suggestion(
        "sac",
        lambda spec, native: is_bounded(spec) and (not native or preset("sac", spec.name) is not None),
        "are continuous and bounded, and SAC needs the fewest steps of them",
    ),
    Suggestion(
        "ppo",
        lambda spec, native: not native and is_picture(spec),
        "seen through images: PPO learns steadily from many environments at once",
    ),
    Suggestion(
        "ppo",
        lambda spec, native: not native and isinstance(spec.action_space, spaces.Discrete | spaces.MultiDiscrete),
        "on the host: PPO learns at least as much as DQN there, and steps several environments side by side",
    ),
    Suggestion(
        "ppo",
        lambda spec, native: not native,
        "on the host: PPO takes choices and numbers, with bounds or without, and steps several environments side by "
        "side",
    ),
    Suggestion(
        "ppo",
        lambda spec, native: True,
        "in an environment that is quick to step: PPO learns fastest by the clock",
    ),
)
"""The first that fits counts.

What Forage's own defaults come to in the study (benchmarks/results/DEFAULTS.md): in Taxi PPO 7.6 and DQN -183, in
FrozenLake 0.37 and 0.22, in Acrobot both -84. In Pendulum SAC -215 after 5,000 steps and PPO -698 after 40,000, which
take as long; in InvertedDoublePendulum SAC 617 after 8,000 and PPO 3644 after 50,000.
"""


def suggest(spec: Spec, native: bool) -> tuple[str, str]:
    """Return an agent that suits an environment, and the reason."""
    found = next(one for one in SUGGESTIONS if one.fits(spec, native))
    return found.agent, f"{describe_space(spec.action_space)} actions {found.why}"


class Length(NamedTuple):
    """The length of a run without a preset: a number of episodes, within a range of steps of each seed."""

    episodes: int
    least: int
    most: int


LENGTHS: dict[tuple[str, bool], Length] = {
    ("rollouts", True): Length(1000, 500_000, 2_000_000),
    ("rollouts", False): Length(1000, 200_000, 1_000_000),
    ("replayed values", True): Length(200, 100_000, 200_000),
    ("replayed values", False): Length(200, 100_000, 200_000),
    ("replayed actors", True): Length(100, 20_000, 50_000),
    ("replayed actors", False): Length(100, 20_000, 40_000),
    ("texts", False): Length(20_000, 20_000, 100_000),
}
"""The length of a run, by the agent's source of data, and whether the environment is native.

Actors learned from replay, as SAC's, make an update at every step: 100 a second over all seeds on two cores (15,000
steps of Reacher with three seeds take 7 minutes), so that 40,000 steps with three seeds take 15 to 20 minutes. Texts
are written one after another, and learned from at once.
"""
USUAL_HORIZON = 1000  # where an environment does not say how long its episodes can be


def length_for(agent: Agent, spec: Spec, native: bool) -> Length:
    """Return the row of `LENGTHS` for an agent in an environment."""
    if isinstance(spec.action_space, Tokens):
        return LENGTHS["texts", False]
    replayed = "replayed actors" if isinstance(spec.action_space, spaces.Box | MixedSpace) else "replayed values"
    return LENGTHS["rollouts" if agent.on_policy else replayed, native]


def default_steps(agent: Agent, environment: str, spec: Spec, native: bool, suggested: bool) -> tuple[int, str]:
    """Return the default number of steps, and the reason: the preset's steps, else those of `LENGTHS`.

    If the agent was `suggested` too, a preset's steps are cut to the maximum of `LENGTHS`.
    """
    known = preset(nearest_named(part_name(agent), type(agent)).agent, environment)
    length = length_for(agent, spec, native)
    if known is not None and not (suggested and known.steps > length.most):
        return known.steps, "as its preset has it"
    if known is not None:
        return length.most, f"cut from its preset's {known.steps:,} to fit a laptop"
    horizon = spec.horizon or USUAL_HORIZON
    steps = min(max(length.episodes * horizon, length.least), length.most)
    return steps, f"for episodes of up to {horizon:,}" if spec.horizon else "for episodes without a known end"


def make_agent(name: str, environment: str, options: dict[str, Any]) -> Agent:
    """Return the agent called `name`, with `options` over its preset's settings."""
    known = preset(name, environment)
    return part_class("agent", name)(**((known.settings if known else {}) | options))


def usual_parts(agent: Agent) -> dict[str, Any]:
    """Return the default parts of an agent, by port."""
    return {
        "behaviour": default_behaviour(agent),
        "rewards": EnvironmentReward(),
        "memory": default_memory(agent),
        "tasks": Same(),
        "starts": default_starts(agent),
    }


def merge_over(known: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the given parts over the preset's; but bonuses are added to the preset's treatment of the reward."""

    def add_treatment(part: Rewards) -> Rewards:
        if isinstance(part, Bonus):
            return dataclasses.replace(part, inner=add_treatment(part.inner))
        return known["rewards"] if isinstance(part, EnvironmentReward) else part

    parts = known | given
    if "rewards" in known and isinstance(parts["rewards"], Bonus):
        parts["rewards"] = add_treatment(parts["rewards"])
    return parts
