"""Shared code of Brax and MuJoCo Playground: a simulator with a traced model, its actions and its clock."""

from __future__ import annotations

import abc
import os
import sys
from typing import Any, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core import prng
from forage.core.ports import Environment
from forage.core.types import ForageError, Step
from forage.environments.adapters.jax import common as foreign


class TimedState(NamedTuple):
    """A library's state and the time since the start of its episode."""

    inner: Any
    time: Int[Array, ""]  # simulator steps, of which `action_repeat` make one of ours


class SimulatorEnvironment(Environment):
    """A simulator's environment, with the library's `done` as termination and the time limit kept here.

    `parameters` is the physics model, traced: `with_fields` and tasks may set `body_mass`, `geom_friction`, ...

    - Action: `float32[n]` in [-1, 1].
    - Reward: summed over `action_repeat` simulator steps.
    - Terminated: the environment's `done`. Truncated: after `episode_length` simulator steps, if not terminated.
    """

    library: Any = equinox.field(static=True)
    id: str = equinox.field(static=True)
    prefix: str = equinox.field(static=True)
    action_repeat: int = equinox.field(static=True)
    shapes: tuple[tuple[str, tuple[int, ...], Any], ...] = equinox.field(static=True)  # of what is seen
    parameters: Any
    episode_length: int

    @property
    def frames_per_second(self) -> float | None:
        seconds = getattr(self.library, "dt", None)  # of one step; only simulators have it
        return None if seconds is None else 1 / (float(seconds) * self.action_repeat)

    @property
    def clocked(self) -> bool:
        """Return whether the library's `done` includes the time limit, without a way to distinguish the two at that
        step.
        """
        return False

    @abc.abstractmethod
    def simulator(self) -> Any:
        """Return the library's environment with `parameters` as its model."""

    @property
    @abc.abstractmethod
    def actions(self) -> int:
        """Entries of an action."""

    def agent_observation(self, observation: PyTree[Array]) -> PyTree[Array]:
        """Return the agent's part of the library's observation."""
        return foreign.to_observation(dict(observation) if isinstance(observation, dict) else observation)

    def observation_shapes(self) -> tuple[tuple[str, tuple[int, ...], Any], ...]:
        """Return names, shapes and dtypes of the observation. Tracing a reset takes seconds, so this happens once."""
        seen = jax.eval_shape(lambda: self.agent_observation(self.library.reset(prng.key(0)).obs))
        parts = seen if isinstance(seen, dict) else {"": seen}
        return tuple((name, part.shape, part.dtype) for name, part in parts.items())

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        parts: dict[str, gymnasium.Space[Any]] = {
            name: foreign.unbounded_box(shape, dtype) for name, shape, dtype in self.shapes
        }
        return parts[""] if "" in parts else gymnasium.spaces.Dict(parts)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-1.0, 1.0, (self.actions,), np.float32)

    @property
    def horizon(self) -> int:
        return -(-int(self.episode_length) // self.action_repeat)

    def reset(self, key: Key[Array, ""]) -> tuple[TimedState, PyTree[Array]]:
        state = foreign.strong(self.simulator().reset(key))
        return TimedState(state, jnp.int32(0)), self.agent_observation(state.obs)

    def step(self, state: TimedState, action: Float[Array, " actions"], key: Key[Array, ""]) -> tuple[TimedState, Step]:
        simulator, inner, reward = self.simulator(), state.inner, jnp.float32(0)
        for _ in range(self.action_repeat):
            inner = foreign.strong(simulator.step(inner, action))
            reward = reward + inner.reward
        time = state.time + self.action_repeat
        timed_out = time >= self.episode_length
        terminated = (inner.done > 0) & ~(timed_out & self.clocked)
        truncated = timed_out & ~terminated
        step = Step(
            self.agent_observation(inner.obs), reward.astype(jnp.float32), terminated, truncated, dict(inner.metrics)
        )
        return TimedState(inner, time), step

    def draw(self, render: Any, *arguments: Any) -> Any:
        """Return the picture of the library's renderer (MuJoCo's)."""
        name = f"{self.prefix}:{self.id}"
        hint = (
            "MUJOCO_GL=egl or MUJOCO_GL=osmesa in the environment draws without a display, with that library installed"
        )
        if sys.platform == "linux" and not os.environ.get("DISPLAY") and not os.environ.get("MUJOCO_GL"):
            # MuJoCo would not raise here but end the whole process.
            raise ForageError(f"{name} cannot be drawn: MuJoCo's OpenGL finds no display; {hint}.")
        try:
            return foreign.picture(name, render(*arguments))
        except Exception as error:  # without OpenGL each platform raises its own kind
            raise ForageError(f"{name} cannot be drawn: no OpenGL here ({type(error).__name__}); {hint}.") from error
