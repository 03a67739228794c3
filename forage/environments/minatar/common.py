"""Shared code of the five MinAtar games: the action set, sticky actions, the step limit, the board and the picture.

Kenny Young, Tian Tian (2019), "MinAtar: An Atari-Inspired Testbed for Thorough and Reproducible Reinforcement Learning
Experiments", arXiv 1903.03176.

A line of the board (a row, or a column in Space Invaders) is kept as one integer whose bit `i` is its cell `i`: whole
lines of entities then move, meet and are counted in single integer operations, also under `vmap`.
"""

from __future__ import annotations

import abc
import math
from typing import Any, ClassVar, TypeAlias

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Step

SIZE = 10
"""Cells on each side of the board."""

LINE = (1 << SIZE) - 1
"""A line of the board with every cell set."""

ACTIONS = "nlurdf"
"""All actions, in the package's order: no-op, left, up, right, down, fire."""

CELL = 24
"""Pixels on each side of a drawn cell."""

BACKGROUND = (18, 20, 30)
EMPTY_CELL = (28, 31, 45)

Number: TypeAlias = Int[Array, ""]
Flag: TypeAlias = Bool[Array, ""]
Observation: TypeAlias = Bool[Array, "10 10 channel"]


def as_integer(value: Any) -> Number:
    """Return a scalar of the one integer type that states are made of."""
    return jnp.asarray(value, jnp.int32)


def bit(index: Int[Array, "*shape"]) -> Int[Array, "*shape"]:
    """Return the line with only cell `index` set."""
    return jnp.left_shift(jnp.int32(1), index)


def on_line(line: Number, content: Number) -> Int[Array, " line"]:
    """Return a board with `content` as line number `line` and its other lines empty."""
    return jnp.where(jnp.arange(SIZE) == line, content, 0)


def board_channels(rows: list[Int[Array, "10"]]) -> Observation:
    """Return the observation from one board per channel, each given by its rows."""
    # The remainder changes nothing. But XLA on the CPU would work out the whole step again for each of the cells, were
    # there not something on the way that it holds for costly, and integer division is the cheapest such thing.
    lines = jax.lax.rem(jnp.stack(rows), as_integer(LINE + 1 + 1))
    board = lines[:, :, None] >> jnp.arange(SIZE) & 1 != 0
    return jnp.transpose(board, (1, 2, 0))


class MinAtar(Environment):
    """A MinAtar game, equal to the `minatar` package step for step from the same state and the same random numbers.

    `step(state, action, key)` is `advance(state, action, draw(key))`: all chance is in `draw`, all rules in `advance`.
    An ended episode must be reset: what `step` makes of a terminal state has no meaning.
    Unlike the package, where the last action outlives the episode, `reset` sets it to no-op.
    """

    frames_per_second: ClassVar[float] = 20.0
    ranges: ClassVar[Ranges] = {"sticky_action_prob": Range(0, 1), "max_steps": Range(1)}

    sticky_action_prob: float = 0.1
    """Chance that the previous action is repeated in place of the chosen one, in each step."""
    max_steps: int | None = equinox.field(static=True, default=None)
    """Time limit of an episode in steps. None, as in the package: the game alone ends it."""
    minimal_actions: bool = equinox.field(static=True, default=True)
    """Offer only the actions with an effect in this game; otherwise all six."""

    channels: ClassVar[tuple[str, ...]]
    minimal_action_set: ClassVar[str]
    palette: ClassVar[tuple[tuple[int, int, int], ...]]

    def __check_init__(self) -> None:
        if self.max_steps is not None and self.max_steps < 1:
            raise ForageError(f"max_steps is {self.max_steps}; give at least 1, or None for no limit.")

    @property
    def actions(self) -> str:
        """Return the offered actions, one letter of `ACTIONS` each."""
        return self.minimal_action_set if self.minimal_actions else ACTIONS

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0, 1, (SIZE, SIZE, len(self.channels)), dtype=np.bool_)  # pyrefly: ignore[no-matching-overload]

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(len(self.actions))

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, math.inf

    @property
    def horizon(self) -> int | None:
        return self.max_steps

    @abc.abstractmethod
    def draw(self, key: Key[Array, ""]) -> Any:
        """Return the random numbers of one step, as a named tuple with the sticky action's as `repeat`."""

    @abc.abstractmethod
    def advance(self, state: Any, action: Number, draws: Any) -> tuple[Any, Step]:
        """Take one step with given random numbers."""

    @abc.abstractmethod
    def observe(self, state: Any) -> Observation:
        """Return the board `[row, column, channel]` of a state."""

    def step(self, state: Any, action: Number, key: Key[Array, ""]) -> tuple[Any, Step]:
        return self.advance(state, action, self.draw(key))

    def is_pressed(self, action: Number, letter: str) -> Flag:
        """Return whether `action` is the named one; false for an action that is not offered."""
        return action == self.actions.find(letter)

    def outcome(self, state: Any, reward: Number, terminated: Flag) -> Step:
        """Return the `Step` of a transition into `state`."""
        truncated = (
            jnp.zeros_like(terminated) if self.max_steps is None else (state.time >= self.max_steps) & ~terminated
        )
        return Step(self.observe(state), jnp.asarray(reward, jnp.float32), terminated, truncated, {})

    def render(self, state: Any) -> UInt8[np.ndarray, "height width 3"]:
        """Draw a state, each channel in its colour of `palette`; channels that share a cell are nested squares."""
        observation = np.asarray(self.observe(state))
        image = np.full((SIZE * CELL, SIZE * CELL, 3), BACKGROUND, np.uint8)
        for row, column in np.ndindex(SIZE, SIZE):
            active = [self.palette[channel] for channel in np.flatnonzero(observation[row, column])]
            for depth, colour in enumerate([EMPTY_CELL, *active]):
                inset = 1 + 4 * max(depth - 1, 0)
                top, left, side = row * CELL + inset, column * CELL + inset, CELL - 2 * inset
                image[top : top + side, left : left + side] = colour
        return image


def uniform_index(uniform: Float[Array, "*shape"], count: Int[Array, "*shape"] | int) -> Int[Array, "*shape"]:
    """Turn a uniform number in [0, 1) into a whole one in 0 ... count - 1, evenly."""
    return (uniform * count).astype(jnp.int32)
