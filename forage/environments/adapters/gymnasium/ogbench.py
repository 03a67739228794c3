"""OGBench on the host: `ogbench:antmaze-large-singletask-task1-v0`, `ogbench:cube-single-v0`.

Park, Frans, Eysenbach, Levine (2025), "OGBench: Benchmarking Offline Goal-Conditioned RL", arXiv 2410.20092.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment
from forage.environments.adapters.gymnasium.make import Target, make_single


class SeededEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Seeds NumPy's global generator at a reset with a seed: the library draws first states and goals from it alone."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            np.random.seed(seed % 2**32)
        return self.env.reset(seed=seed, options=options)


class WithGoal(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Adds the goal, which the library gives in `info` at a reset, to the observation."""

    def __init__(self, env: gymnasium.Env[Any, Any]):
        super().__init__(env)
        space = env.observation_space
        self.observation_space = spaces.Dict({"observation": space, "desired_goal": space})
        self.goal: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self.goal = np.asarray(info["goal"], observation.dtype)
        return self.observation(observation), info

    def observation(self, observation: Any) -> dict[str, Any]:
        """Return the observation and the goal of the episode."""
        return {"observation": observation, "desired_goal": self.goal}


class OGBenchEnvironment(GymnasiumEnvironment):
    """Environments of OGBench: mazes of points, ants, humanoids and balls, cubes, scenes, puzzles and powderworld.

    Those named `singletask` have one goal, which is part of the task, and pay for reaching it; the others show
    `{"observation", "desired_goal"}` and draw one of their tasks at each reset. `success` is in `info`. Options are the
    environment's own and those of `GymnasiumEnvironment`.
    """

    @classmethod
    def options_of(cls, target: Target) -> set[str]:
        load_ogbench()
        return super().options_of(target)

    @staticmethod
    def _single(target: Target, own: Mapping[str, Any], **how: Any) -> gymnasium.Env[Any, Any]:
        load_ogbench()
        assert isinstance(target, str)

        def make(**options: Any) -> gymnasium.Env[Any, Any]:
            env: gymnasium.Env[Any, Any] = SeededEnv(gymnasium.make(target, disable_env_checker=True, **options))
            return env if "singletask" in target else WithGoal(env)

        return make_single(make, own=own, **how)


def load_ogbench() -> Any:
    """Import OGBench, which registers its ids. Raise `ForageError` with the install command if it is missing."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            import ogbench
    except ImportError as error:
        raise ForageError("OGBench is not installed: pip install 'forage-rl[ogbench]'.") from error
    return ogbench


def ids() -> dict[str, str]:
    """Return every id that OGBench registers, with a line of description."""
    load_ogbench()
    return {
        id: f"OGBench's {spec.name.replace('-', ' ')}."
        for id, spec in sorted(gymnasium.registry.items())
        if str(spec.entry_point).startswith("ogbench.")
    }
