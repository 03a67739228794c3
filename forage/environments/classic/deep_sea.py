"""Deep sea: the smallest task that only deep exploration solves."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

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


class DeepSeaState(NamedTuple):
    column: Int[Array, ""]
    time: Int[Array, ""]  # steps taken; also the row, since each step goes one row down


class DeepSea(Environment):
    """A diver sinks through an N x N grid from the top left, one row a step, moving left or right.

    Only going right at every step ends at the reward of 1. Going right costs `move_cost / N` each time, so the greedy
    thing is to stay left, and acting at random finds the reward in one of 2^N episodes.
    Which of the two actions means right differs from cell to cell (`action_mapping`), so no habit generalises.

    - Observation: `float32[N, N]`, one at the diver's cell; all zeros once the last row is left.
    - Action: 0 or 1.
    - Reward: `-move_cost / N` for going right, and 1 for going right in the last column (reached in the last row only).
    - Terminated: after exactly N steps, at the bottom. Never truncated.
    - Stochastic: right fails, at full cost, with probability 1/N, and a step from either bottom corner adds N(0, 1) to
      the reward.

    The best return is `1 - move_cost` when deterministic. When stochastic it is, in the mean,
    `(1 - 1/N)^(N-1) - move_cost (1 - (1 - 1/N)^N)`: right until that fails, then left, for nothing is left to pay for.
    Always going right has `(1 - 1/N)^(N-1) - move_cost`, which bsuite counts regret from.

    Source: Osband et al. (2020), "Behaviour suite for reinforcement learning" (arXiv 1908.03568); Osband, Van Roy,
    Russo and Wen (2019), "Deep exploration via randomized value functions" (arXiv 1703.07608). The mapping for a given
    `mapping_seed` is bsuite's own, whose sweep uses seed 42 and sizes 10, 12, ..., 50.
    """

    frames_per_second: ClassVar[float] = 5.0
    ranges: ClassVar[Ranges] = {"size": Range(1), "mapping_seed": Range(0), "move_cost": Range(0)}

    size: int = equinox.field(default=10, static=True)
    stochastic: bool = equinox.field(default=False, static=True)
    randomize_actions: bool = equinox.field(default=True, static=True)  # otherwise action 1 is right everywhere
    mapping_seed: int = equinox.field(default=42, static=True)
    move_cost: float = 0.01  # of a whole episode of moves to the right
    action_mapping: Int[Array, "row column"] = equinox.field(init=False)  # the action that means right

    def __post_init__(self):
        if self.size < 2:
            raise ForageError(f"DeepSea cannot have size {self.size}; any size from 2 up works, 10 to 50 are usual.")
        shape = (self.size, self.size)
        mapping = np.ones(shape, np.int32)
        if self.randomize_actions:
            # NumPy promises never to change this generator's stream, which is what keeps the mapping bsuite's.
            mapping = np.random.RandomState(self.mapping_seed).binomial(1, 0.5, shape).astype(np.int32)
        self.action_mapping = jnp.asarray(mapping)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0.0, 1.0, (self.size, self.size), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(2)

    @property
    def horizon(self) -> int:
        return self.size

    @property
    def map_shape(self) -> tuple[int, int]:
        return self.size, self.size

    def map_position(self, state: DeepSeaState) -> Int[Array, ""]:
        """Return the diver's cell; on the floor, the last one it passed in its column."""
        return jnp.minimum(state.time, self.size - 1) * self.size + state.column

    def reachable(self) -> np.ndarray:
        return np.tri(self.size, dtype=bool)  # a step leads down, and at most one column to the right

    def reset(self, key: Key[Array, ""]) -> tuple[DeepSeaState, Float[Array, "row column"]]:
        state = DeepSeaState(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return state, self._observe(state)

    def step(self, state: DeepSeaState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[DeepSeaState, Step]:
        column, row = state
        last = self.size - 1
        right = action == self.action_mapping[row, column]
        reward = jnp.where(right, (column == last) - self.move_cost / self.size, jnp.zeros((), jnp.float32))

        moves = right
        if self.stochastic:
            wind_key, noise_key = jax.random.split(key)
            moves = right & (jax.random.uniform(wind_key) > 1 / self.size)
            corner = (row == last) & ((column == 0) | (column == last))
            reward = reward + jnp.where(corner, jax.random.normal(noise_key), 0.0)

        # A rightward move that fails stays in its column.
        column = jnp.clip(column + jnp.where(right, moves.astype(jnp.int32), -1), 0, last)
        new_state = DeepSeaState(column, row + 1)
        terminated = new_state.time >= self.size
        return new_state, Step(self._observe(new_state), reward, terminated, jnp.zeros((), bool), {})

    def _observe(self, state: DeepSeaState) -> Float[Array, "row column"]:
        cells = jnp.arange(self.size)
        return ((cells[:, None] == state.time) & (cells == state.column)).astype(jnp.float32)

    def render(self, state: DeepSeaState) -> UInt8[np.ndarray, "height width 3"]:
        size, column, row = self.size, int(state.column), int(state.time)
        side = 340
        cell = side / size
        # One more row than the grid: the floor, where the dive ends.
        canvas = drawing.Canvas(side + 20, round(side + cell) + 20, background=drawing.PAPER)

        def corner(x: float, y: float) -> tuple[float, float]:
            return 10 + x * cell, 10 + y * cell

        gap = 0.04
        for y in range(size):
            water = drawing.mix(drawing.SKY, drawing.BLUE, y / size)
            for x in range(size):
                # The cells above the diagonal cannot be reached.
                colour = water if x <= y else drawing.mix(water, drawing.PAPER, 0.7)
                canvas.rectangle(corner(x + gap, y + gap), corner(x + 1 - gap, y + 1 - gap), colour, 0.12 * cell)
        floor = drawing.mix(drawing.GOLD, drawing.PAPER, 0.45)
        canvas.rectangle(corner(gap, size + gap), corner(size - gap, size + 1 - gap), floor, 0.12 * cell)
        canvas.chest(corner(size - 0.5, size + 0.5), cell)

        x, y = corner(column + 0.5, row + 0.5)
        canvas.circle((x, y), 0.34 * cell, drawing.PAPER)
        canvas.circle((x, y), 0.28 * cell, drawing.ORANGE)
        return canvas.array()
