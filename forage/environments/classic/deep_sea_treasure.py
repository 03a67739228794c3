"""Deep sea treasure: farther treasures are worth more, at the price of a longer journey."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import Step
from forage.environments import drawing

CONCAVE_TREASURES = (1.0, 2.0, 3.0, 5.0, 8.0, 16.0, 24.0, 50.0, 74.0, 124.0)
"""Values by column, Vamplew et al. (2011): only the two ends of the front are best for any weighted sum."""

CONVEX_TREASURES = (0.7, 8.2, 11.5, 14.0, 15.1, 16.1, 19.6, 20.3, 22.4, 23.7)
"""Values by column, Yang et al. (2019, arXiv 1908.08342): each is best, 20.3 only jointly, for some weighted sum."""

_DEPTHS = (1, 2, 3, 4, 4, 4, 7, 7, 9, 10)
_ROCK = -1.0


def treasure_map(treasures: tuple[float, ...] = CONCAVE_TREASURES) -> Float[Array, "row column"]:
    """Return the 11 x 11 sea with these treasures on its floor: positive is treasure, zero is water, negative is rock.

    The last column is water all the way down, as in MO-Gymnasium.
    """
    sea = np.zeros((11, 11), np.float32)
    for column, (value, depth) in enumerate(zip(treasures, _DEPTHS, strict=True)):
        sea[depth, column] = value
        sea[depth + 1 :, column] = _ROCK
    return jnp.asarray(sea)


class DeepSeaTreasureState(NamedTuple):
    row: Int[Array, ""]
    column: Int[Array, ""]
    time: Int[Array, ""]  # steps taken


class DeepSeaTreasure(Environment):
    """A submarine in search of treasure, with a reward of two entries: the treasure's value and the time.

    - Observation: `float32[2]`, row and column, each as a share of the map's extent (0 to 1).
    - Action: 0 up, 1 down, 2 left, 3 right; a move into rock or off the map leaves the submarine where it is.
    - Reward: `(treasure, time)`: the value found, else 0; and -1 each step.
    - Terminated: at a treasure. Truncated: after `max_steps` steps.

    The Pareto front of undiscounted returns pairs the treasure of column c at depth d with `-(c + d)`.
    `DeepSeaTreasure(treasure_map(CONVEX_TREASURES))` is MO-Gymnasium's `deep-sea-treasure-v0`, the default its
    `deep-sea-treasure-concave-v0`.

    Source: Vamplew, Dazeley, Berry, Issabekov and Dekker (2011), "Empirical evaluation methods for multiobjective
    reinforcement learning algorithms".
    """

    frames_per_second: ClassVar[float] = 5.0

    reward_names: ClassVar[tuple[str, ...]] = ("treasure", "time")

    ranges: ClassVar[Ranges] = {"max_steps": Range(1)}

    treasure_map: Float[Array, "row column"] = equinox.field(default_factory=treasure_map)
    max_steps: int = 100

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(4)

    @property
    def horizon(self) -> int:
        return self.max_steps

    def reset(self, key: Key[Array, ""]) -> tuple[DeepSeaTreasureState, Float[Array, "observation=2"]]:
        zero = jnp.zeros((), jnp.int32)
        state = DeepSeaTreasureState(zero, zero, zero)
        return state, self._observe(state)

    def step(
        self, state: DeepSeaTreasureState, action: Int[Array, ""], key: Key[Array, ""]
    ) -> tuple[DeepSeaTreasureState, Step]:
        sea = jnp.asarray(self.treasure_map)
        rows, columns = sea.shape
        row_move, column_move = jnp.array([[-1, 0], [1, 0], [0, -1], [0, 1]], jnp.int32)[action]
        row = jnp.clip(state.row + row_move, 0, rows - 1)
        column = jnp.clip(state.column + column_move, 0, columns - 1)
        blocked = sea[row, column] < 0
        row = jnp.where(blocked, state.row, row)
        column = jnp.where(blocked, state.column, column)

        new_state = DeepSeaTreasureState(row, column, state.time + 1)
        treasure = jnp.maximum(sea[row, column], 0.0)
        terminated = treasure > 0
        truncated = (new_state.time >= self.max_steps) & ~terminated
        reward = jnp.stack([treasure, -jnp.ones_like(treasure)])
        return new_state, Step(self._observe(new_state), reward, terminated, truncated, {})

    def _observe(self, state: DeepSeaTreasureState) -> Float[Array, "observation=2"]:
        rows, columns = jnp.shape(self.treasure_map)
        return jnp.stack([state.row / (rows - 1), state.column / (columns - 1)])

    def render(self, state: DeepSeaTreasureState) -> UInt8[np.ndarray, "height width 3"]:
        sea = np.asarray(self.treasure_map)
        rows, columns = sea.shape
        cell = 360 / max(rows, columns)
        canvas = drawing.Canvas(round(columns * cell), round(rows * cell))
        for y in range(rows):
            water = drawing.mix(drawing.SKY, drawing.BLUE, 0.9 * y / rows)
            canvas.rectangle((0, y * cell), (columns * cell, (y + 1) * cell), water)
        rock = drawing.mix(drawing.INK, drawing.STONE, 0.35)
        for y, x in np.argwhere(sea < 0).tolist():
            canvas.rectangle((x * cell, y * cell), ((x + 1) * cell, (y + 1) * cell), rock)
        for y, x in np.argwhere(sea > 0).tolist():
            canvas.chest(((x + 0.5) * cell, (y + 0.36) * cell), 0.9 * cell)
            canvas.text(((x + 0.5) * cell, (y + 0.8) * cell), f"{sea[y, x]:g}", drawing.INK, 0.34 * cell)

        x, y = (int(state.column) + 0.5) * cell, (int(state.row) + 0.5) * cell
        canvas.line([(x - 0.18 * cell, y + 0.06 * cell), (x + 0.18 * cell, y + 0.06 * cell)], drawing.RED, 0.44 * cell)
        canvas.line([(x, y - 0.36 * cell), (x, y)], drawing.RED, 0.12 * cell)
        canvas.line([(x, y - 0.36 * cell), (x + 0.12 * cell, y - 0.36 * cell)], drawing.RED, 0.12 * cell)
        canvas.circle((x + 0.16 * cell, y + 0.04 * cell), 0.1 * cell, drawing.PAPER)
        return canvas.array()
