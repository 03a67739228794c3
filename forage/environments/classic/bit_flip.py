"""Bit flipping: the smallest task that takes goals in hindsight."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Step
from forage.environments import drawing
from forage.environments.wrappers.goals import GoalConditioned


class BitFlipState(NamedTuple):
    bits: Float[Array, " bit"]  # 0 or 1
    time: Int[Array, ""]  # steps taken


class BitFlip(Environment):
    """A row of bits with an action that flips one of them. Its reward is 0: `bit_flip` adds the goal.

    - Observation: `float32[size]`, the bits, drawn uniformly at the start.
    - Action: the index of the bit to flip, from 0 to `size` - 1.
    - Reward: 0. Never terminated.
    - Truncated: after `size` steps, as many as the farthest goal takes.

    Source: Andrychowicz et al. (2017), "Hindsight Experience Replay" (arXiv 1707.01495), section 3.1.
    """

    frames_per_second: ClassVar[float] = 5.0

    draws_goals: ClassVar[bool] = True

    ranges: ClassVar[Ranges] = {"size": Range(1)}

    size: int = equinox.field(default=20, static=True)

    def __check_init__(self):
        if self.size < 1:
            raise ForageError(f"BitFlip cannot have {self.size} bits; any number from 1 up works.")

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0.0, 1.0, (self.size,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(self.size)

    @property
    def horizon(self) -> int:
        return self.size

    @property
    def goal_space(self) -> gymnasium.spaces.Box:
        return self.observation_space

    def reset(self, key: Key[Array, ""]) -> tuple[BitFlipState, Float[Array, " bit"]]:
        state = BitFlipState(self._draw(key), jnp.int32(0))
        return state, state.bits

    def step(self, state: BitFlipState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[BitFlipState, Step]:
        bits = state.bits.at[action].set(1 - state.bits[action])
        state = BitFlipState(bits, state.time + 1)
        return state, Step(bits, jnp.float32(0), jnp.bool_(False), state.time >= self.size, {})

    def achieved_goal(self, state: BitFlipState) -> Float[Array, " bit"]:
        """Return the bits."""
        return state.bits

    def draw_goal(self, state: BitFlipState, key: Key[Array, ""]) -> Float[Array, " bit"]:
        """Draw bits uniformly."""
        return self._draw(key)

    def _draw(self, key: Key[Array, ""]) -> Float[Array, " bit"]:
        return jax.random.bernoulli(key, shape=(self.size,)).astype(jnp.float32)

    def render(self, state: BitFlipState, goal: Any = None, reach: float = 0.0) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the bits in a row, and below them the goal."""
        rows = [np.asarray(state.bits), np.zeros(self.size) if goal is None else np.asarray(goal)]
        canvas = drawing.Canvas(24 * self.size, 48, (0.0, 0.0, float(self.size), 2.0), drawing.PAPER)
        for bottom, bits, colour in zip((1, 0), rows, (drawing.INK, drawing.GOLD), strict=True):
            for place in np.flatnonzero(bits):
                canvas.rectangle((place + 0.1, bottom + 0.1), (place + 0.9, bottom + 0.9), colour)
        return canvas.array()


def bit_flip(size: int = 20) -> GoalConditioned:
    """Return bits with a goal row: reward -1 for each step, 0 for the step that reaches it and ends the episode."""
    return GoalConditioned(BitFlip(size), radius=0.5, reward="penalty", on_success="end")
