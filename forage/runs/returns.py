"""The guaranteed range of an episode's return, which bounds every interval of a mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from forage.config.run_config import RunConfig
from forage.core.ports import Environment, range_of_returns
from forage.environments.adapters.gymnasium.make import OURS
from forage.tasks.same import Same

GYMNASIUM: dict[str, tuple[float, float]] = {
    "CartPole": (1.0, 1.0),
    "Acrobot": (-1.0, 0.0),
    "MountainCar": (-1.0, -1.0),
    "Pendulum": (-(math.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2), 0.0),
    "CliffWalking": (-100.0, -1.0),
    "Taxi": (-10.0, 20.0),
}
"""The rewards of each step of Gymnasium's environments."""
ONCE: dict[str, tuple[float, float]] = {"FrozenLake": (0.0, 1.0), "Blackjack": (-1.5, 1.5)}
"""The only reward of an episode, for environments with one reward an episode."""
HARMLESS = ("frame-stack", "time-limit", "sticky-actions", "delay")
"""Wrappers around Gymnasium's environments that keep the rewards unchanged."""


def return_range(setup: RunConfig, limit: int) -> tuple[float, float] | None:
    """Return the range of an episode's return in evaluation, with episodes cut after `limit` steps."""
    if setup.spec.reward_names or not isinstance(setup.tasks, Same):
        return None
    environment = setup.environment
    if isinstance(environment, Environment):
        if (setup.spec.num_agents > 1 and not environment.competitive) or not pays_as_declared(environment):
            return None
        found = environment.return_range
        steps = None if environment.reward_range is None else range_of_returns(environment.reward_range, limit)
        if found is None or steps is None:
            return found or steps
        return max(found[0], steps[0]), min(found[1], steps[1])
    config = setup.environment_config
    prefix, _, rest = str(config.get("id", "")).partition(":")
    wrapped = {words.partition(":")[0] for words in config.get("wrap", ())}
    if prefix != "gymnasium" or wrapped - {*HARMLESS} or {*(config.get("options") or {})} - {*OURS}:
        return None
    name = rest.rpartition("-")[0]
    return range_of_returns(GYMNASIUM[name], limit) if name in GYMNASIUM else ONCE.get(name)


def pays_as_declared(environment: Environment) -> bool:
    """Return whether no class of the user overrides the steps of an environment that declares their rewards."""
    layer: Any = environment
    while layer is not None:
        for cls in type(layer).__mro__:
            if {"reward_range", "return_range"} & {*vars(cls)}:
                break
            if "step" in vars(cls) and not cls.__module__.startswith("forage."):
                return False
        layer = getattr(layer, "environment", None)
    return True


def holding(found: tuple[float, float] | None, returns: np.ndarray) -> list[float | None] | None:
    """Return a range for JSON, with `None` for infinite ends; `None` if a return is outside the declared range."""
    if found is None:
        return None
    slack = 1e-4 * max(1.0, float(np.abs(returns).max()))
    if returns.min() < found[0] - slack or returns.max() > found[1] + slack:
        return None
    return [end if math.isfinite(end) else None for end in found]
