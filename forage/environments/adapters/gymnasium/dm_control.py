"""DeepMind Control on the host, from its own package: `dm_control:walker-walk`.

Tassa et al. (2018), "DeepMind Control Suite", arXiv 1801.00690; Tunyasuvunakool et al. (2020), "dm_control: Software
and tasks for continuous control", arXiv 2006.12983.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import math
import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment
from forage.environments.adapters.gymnasium.make import Target, make_single


class ControlTask(gymnasium.Env[Any, Any]):
    """One task of the suite as a `gymnasium.Env`.

    Observations are the task's named arrays, as 32-bit floats, or a picture of `size` x `size` pixels. An episode is
    truncated at the task's time limit, and terminates where the task's discount is below 1. Rewards lie in [0, 1].
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 40}

    def __init__(
        self,
        domain: str,
        task: str,
        *,
        time_limit: float | None = None,
        pixels: bool = False,
        size: int = 84,
        camera: int = 0,
        render_mode: str | None = None,
    ):
        suite, limit = load_suite(), {} if time_limit is None else {"time_limit": time_limit}
        self.environment = suite.load(domain, task, task_kwargs=limit)
        self.render_mode, self.pixels, self.size, self.camera = render_mode, pixels, size, camera
        self.metadata = self.metadata | {"render_fps": round(1 / self.environment.control_timestep())}
        moves = self.environment.action_spec()
        low, high = (np.broadcast_to(end, moves.shape).astype(np.float32) for end in (moves.minimum, moves.maximum))
        self.action_space = spaces.Box(low, high, dtype=np.float32)
        if pixels:
            self.observation_space = spaces.Box(0, 255, (size, size, 3), np.uint8)
        else:
            self.observation_space = spaces.Dict(
                {
                    name: spaces.Box(-np.inf, np.inf, tuple(one.shape) or (1,), np.float32)
                    for name, one in self.environment.observation_spec().items()
                }
            )

    @property
    def step_limit(self) -> int | None:
        """Return the most steps of an episode; `None` without a time limit."""
        limit = self.environment._step_limit
        return None if math.isinf(limit) else math.ceil(limit)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:  # the suite has no other way to seed a task that is made already
            self.environment.task._random = np.random.RandomState(seed)
        return self.observe(self.environment.reset().observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step = self.environment.step(np.asarray(action, np.float64))
        terminated = bool(step.last() and step.discount < 1)
        return self.observe(step.observation), float(step.reward), terminated, step.last() and not terminated, {}

    def observe(self, arrays: Mapping[str, np.ndarray]) -> Any:
        """Return the observation of the present state, given the task's arrays."""
        if self.pixels:
            return self.environment.physics.render(self.size, self.size, camera_id=self.camera)
        return {name: np.atleast_1d(np.asarray(value, np.float32)) for name, value in arrays.items()}

    def render(self) -> Any:
        return self.environment.physics.render(240, 320, camera_id=self.camera)


class DMControlEnvironment(GymnasiumEnvironment):
    """Tasks of the DeepMind Control Suite, `DOMAIN-TASK`.

    Options are those of `ControlTask` (`pixels=true`, `size`, `camera`, `time_limit` in seconds) and those of
    `GymnasiumEnvironment`.
    """

    @classmethod
    def options_of(cls, target: Target) -> set[str]:
        return set(inspect.signature(ControlTask).parameters) - {"domain", "task", "render_mode"}

    @staticmethod
    def _single(target: Target, own: Mapping[str, Any], **how: Any) -> gymnasium.Env[Any, Any]:
        assert isinstance(target, str)
        return make_single(functools.partial(make_task, target), own=own, **how)


def make_task(name: str, render_mode: str | None = None, **options: Any) -> gymnasium.Env[Any, Any]:
    """Make a task by its name, with the limit on its steps. Raise `ForageError` if MuJoCo's version cannot run it."""
    tasks = {f"{domain}-{task}": (domain, task) for domain, task in load_suite().ALL_TASKS}
    try:
        made = ControlTask(*tasks[name], render_mode=render_mode, **options)
    except AttributeError as error:  # its tables name fields of MuJoCo's structures, which other versions have not
        import mujoco

        raise ForageError(
            f"{name} of DeepMind Control does not work with MuJoCo {mujoco.__version__}; "
            f"pip install 'forage-rl[dm-control]' in an environment of its own."
        ) from error
    return gymnasium.wrappers.TimeLimit(made, made.step_limit) if made.step_limit else made


@functools.cache
def load_suite() -> Any:
    """Import the suite. Raise `ForageError` with the install command if it is missing."""
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # as for Gymnasium's own; its choice would fail without a display
    try:
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from dm_control import suite
    except ImportError as error:
        raise ForageError("DeepMind Control is not installed: pip install 'forage-rl[dm-control]'.") from error
    return suite


def ids() -> dict[str, str]:
    """Return every task of the suite, with a line of description."""
    return {
        f"{domain}-{task}": f"DeepMind Control's {domain.replace('_', ' ')}: {task.replace('_', ' ')}."
        for domain, task in sorted(load_suite().ALL_TASKS)
    }
