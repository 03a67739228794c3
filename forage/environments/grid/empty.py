"""Empty, FourRooms and LavaGap: the way to a goal square, without moving objects.

Layouts and limits are those of the `minigrid` package (Chevalier-Boisvert et al., 2023, arXiv 2306.13831); FourRooms is
Sutton, Precup and Singh (1999), "Between MDPs and semi-MDPs"; LavaGap is after Leike et al. (2017), "AI Safety
Gridworlds", arXiv 1711.09883.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError
from forage.environments.grid.cells import EMPTY, GOAL_CELL, LAVA_CELL, WALL_CELL
from forage.environments.grid.core import GridWorld, Level
from forage.environments.grid.layout import empty_cells, level, pick, put, uniform_integer, uniforms, walled_grid


class Square(GridWorld):
    """A square world."""

    ranges: ClassVar[Ranges] = {"size": Range(5)}

    size: int = equinox.field(default=8, static=True)

    def __check_init__(self) -> None:
        if self.size < 5:
            raise ForageError(f"{type(self).__name__} cannot have size {self.size}; any size from 5 up works.")

    @property
    def height(self) -> int:
        return self.size

    @property
    def width(self) -> int:
        return self.size


class Empty(Square):
    """An empty room with the goal in the far corner. `random_start` also draws the agent's start."""

    random_start: bool = equinox.field(default=False, static=True)
    see_through_walls: bool = equinox.field(default=True, static=True, kw_only=True)

    mission = "get to the green goal square"

    @property
    def usual_max_steps(self) -> int:
        return 4 * self.size**2

    def generate(self, key: Key[Array, ""]) -> Level:
        grid = walled_grid(self.size, self.size)
        grid[-2, -2] = GOAL_CELL
        if not self.random_start:
            return level(grid, 1, 1, 0)
        where, turn = uniforms(key, 2)
        return level(grid, *pick(jnp.asarray(grid == EMPTY), where), uniform_integer(turn, 0, 4))


class FourRooms(Square):
    """Four rooms with a gap in each wall between them; the agent and the goal are anywhere."""

    ranges: ClassVar[Ranges] = {"size": Range(5)}

    size: int = equinox.field(default=19, static=True)

    mission = "reach the goal"

    @property
    def usual_max_steps(self) -> int:
        return 100

    def generate(self, key: Key[Array, ""]) -> Level:
        last, half = self.size - 1, self.size // 2
        fixed = walled_grid(self.size, self.size)
        fixed[: 2 * half, half] = fixed[half, : 2 * half] = WALL_CELL
        up, down, left, right, where, turn, goal = uniforms(key, 7)
        grid = jnp.asarray(fixed)
        for row in (uniform_integer(up, 1, half), uniform_integer(down, half + 1, min(2 * half, last))):
            grid = put(grid, half, row, EMPTY)
        for column in (uniform_integer(left, 1, half), uniform_integer(right, half + 1, min(2 * half, last))):
            grid = put(grid, column, half, EMPTY)
        x, y = pick(empty_cells(grid), where)
        grid = put(grid, *pick(empty_cells(grid, x, y), goal), GOAL_CELL)
        return level(grid, x, y, uniform_integer(turn, 0, 4))


class LavaGap(Square):
    """A strip of lava with one gap between the agent and the goal. Lava ends the episode without reward."""

    ranges: ClassVar[Ranges] = {"size": Range(5)}

    size: int = equinox.field(default=7, static=True)

    mission = "avoid the lava and get to the green goal square"

    @property
    def usual_max_steps(self) -> int:
        return 4 * self.size**2

    def generate(self, key: Key[Array, ""]) -> Level:
        fixed = walled_grid(self.size, self.size)
        fixed[-2, -2] = GOAL_CELL
        grid = jnp.asarray(fixed)
        column, gap = uniforms(key, 2)
        column, gap = uniform_integer(column, 2, self.size - 2), uniform_integer(gap, 1, self.size - 1)
        rows = jnp.arange(self.size)[:, None]
        strip = (jnp.arange(self.size) == column) & (rows >= 1) & (rows < self.size - 1) & (rows != gap)
        return level(jnp.where(strip, jnp.uint8(LAVA_CELL), grid), 1, 1, 0)
