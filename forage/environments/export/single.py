"""A native environment as a `gymnasium.Env`."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree, UInt8

from forage.core.ports import Environment
from forage.core.types import ForageError
from forage.environments.export.common import (
    Motion,
    check_render_mode,
    convert_action,
    draw_state,
    key_of,
    outside,
    render_modes,
    reward_space,
    to_space_dtype,
)


class GymnasiumExport(gymnasium.Env[Any, Any]):
    """A native environment for code that expects Gymnasium; reset and step are jitted.

    An episode is a function of the seed that it was reset with. A vector reward is an array, beside which there are
    `reward_space` and `reward_names`, as in MO-Gymnasium. Actions outside a box are clipped into it.
    """

    def __init__(self, environment: Environment, name: str = "", render_mode: str | None = None):
        self.name = name or type(environment).__name__
        check_alone(self.name, environment)
        check_render_mode(self.name, environment, render_mode)
        self.environment, self.render_mode = environment, render_mode
        self.metadata = {"render_modes": render_modes(environment), "render_fps": environment.frames_per_second or 30}
        self.observation_space = environment.observation_space
        self.action_space = environment.action_space
        self.reward_names = environment.reward_names
        if self.reward_names:
            self.reward_space = reward_space(environment)
        motion = Motion(environment)
        self._begin, self._move = jax.jit(motion.begin), jax.jit(motion.move)
        self._key: Key[Array, ""] | None = None
        self._state: Any = None
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[PyTree[np.ndarray], dict[str, Any]]:
        """Begin an episode; without a seed, its randomness follows from the episodes before."""
        super().reset(seed=seed)
        if seed is not None:
            self._key = key_of(seed)
        elif self._key is None:
            self._key = key_of(int(self.np_random.integers(2**31)))
        self._key, self._state, observation = self._begin(self._key)
        self._over = False
        return to_space_dtype(self.observation_space, observation), {}

    def step(self, action: Any) -> tuple[PyTree[np.ndarray], Any, bool, bool, dict[str, Any]]:
        """Take one action. Raise `ForageError` for an invalid action, and outside a running episode."""
        if self._over:
            raise ForageError(f"{self.name} has no episode running; call reset() first.")
        action = convert_action(self.name, self.action_space, action)
        self._key, self._state, step = self._move(self._key, self._state, action)
        reward = np.array(step.reward) if self.reward_names else float(step.reward)
        terminated, truncated = bool(step.terminated), bool(step.truncated)
        self._over = terminated or truncated
        return (
            to_space_dtype(self.observation_space, step.observation),
            reward,
            terminated,
            truncated,
            outside(step.info),
        )

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """Draw the state if `render_mode` is set."""
        if self.render_mode is None:
            return None
        if self._state is None:
            raise ForageError(f"{self.name} has nothing to draw before its first reset; call reset() first.")
        return draw_state(self.environment, self._state)


def check_alone(name: str, environment: Environment) -> None:
    """Raise `ForageError` if many agents act: Gymnasium knows one."""
    if environment.num_agents > 1:
        raise ForageError(
            f"{name} has {environment.num_agents} agents and a Gymnasium environment has one; to_pettingzoo works."
        )
