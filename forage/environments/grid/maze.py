"""Maze: walls, start and goal as plain fields of the environment, for curricula that draw, mutate and replay levels.

The task is that of Dennis et al. (2020), "Emergent Complexity and Zero-shot Transfer via Unsupervised Environment
Design", arXiv 2012.02096: find the goal in a partly seen maze, 250 steps. What is seen differs: here 7 x 7 cells, of
which walls hide some, as MiniGrid has it; in the authors' `AdversarialEnv` 5 x 5 cells, through walls.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError
from forage.environments.grid.cells import EMPTY, GOAL_CELL, WALL_CELL
from forage.environments.grid.core import GridWorld, Level
from forage.environments.grid.layout import axes, empty_cells, level, pick, put, uniform_integer, uniforms, walled_grid


def no_walls() -> Bool[Array, "13 13"]:
    """Return the inside of the usual size, empty."""
    return jnp.zeros((13, 13), bool)


def whole_numbers(value: Any) -> Int[Array, "*shape"]:
    """Return `value` as an `int32` array."""
    return jnp.asarray(value, jnp.int32)


class Maze(GridWorld):
    """A maze with the given inner `walls` (true for a wall). A border of walls is added around them.

    `start` and `goal` are `(x, y)` within the inside, `heading` a direction; a negative one is drawn in each episode,
    start and goal on separate free cells. All are traced, so mazes can be batched:

        walls = jax.vmap(lambda key: draw_walls(key, 13, 13, 50))(keys)
        mazes = jax.vmap(lambda walls: with_fields(Maze(), walls=walls))(walls)

    Walls under a given start or goal are removed. The goal need not be reachable: see `check_level`.
    """

    walls: Bool[Array, "rows columns"] = equinox.field(default_factory=no_walls, converter=jnp.asarray)
    start: Int[Array, "2"] = equinox.field(default=(-1, -1), converter=whole_numbers)
    goal: Int[Array, "2"] = equinox.field(default=(-1, -1), converter=whole_numbers)
    heading: Int[Array, ""] = equinox.field(default=-1, converter=whole_numbers)

    mission = "get to the green goal square"

    def __check_init__(self) -> None:
        if jnp.ndim(self.walls) < 2 or self.walls.dtype != bool or min(self.walls.shape[-2:]) < 1:
            raise ForageError(
                f"Maze's walls are {self.walls.dtype}{list(self.walls.shape)}; they should be bool[rows, columns]."
            )

    @property
    def height(self) -> int:
        return self.walls.shape[-2] + 2

    @property
    def width(self) -> int:
        return self.walls.shape[-1] + 2

    @property
    def usual_max_steps(self) -> int:
        return 250

    def generate(self, key: Key[Array, ""]) -> Level:
        where, lies, turn = uniforms(key, 3)
        inside = jnp.where(self.walls, jnp.uint8(WALL_CELL), jnp.uint8(EMPTY))
        grid = jnp.asarray(walled_grid(self.height, self.width)).at[1:-1, 1:-1].set(inside)
        given, end_given = self.start[0] >= 0, self.goal[0] >= 0
        grid = put(grid, self.goal[0] + 1, self.goal[1] + 1, GOAL_CELL, when=end_given)
        grid = put(grid, self.start[0] + 1, self.start[1] + 1, EMPTY, when=given)
        drawn = pick(empty_cells(grid), where)
        x, y = (jnp.where(given, self.start[axis] + 1, drawn[axis]) for axis in (0, 1))
        grid = put(grid, *pick(empty_cells(grid, x, y), lies), GOAL_CELL, when=~end_given)
        return level(grid, x, y, jnp.where(self.heading >= 0, self.heading, uniform_integer(turn, 0, 4)))


def draw_walls(key: Key[Array, ""], rows: int, columns: int, count: int) -> Bool[Array, "rows columns"]:
    """Random walls: `count` draws of a cell, each any cell, so cells drawn twice make fewer."""
    cells = uniform_integer(uniforms(key, count), 0, rows * columns)
    return jnp.zeros(rows * columns, bool).at[cells].set(True).reshape(rows, columns)


class DrawnMaze(GridWorld):
    """A maze with new walls in each episode, for agents that must find their way in mazes they have never seen.

    `count` cells of the inside are drawn independently, as in `draw_walls`. Start and goal are free cells, the goal a
    reachable one; if there is none, the maze has no walls.
    """

    ranges: ClassVar[Ranges] = {"size": Range(4), "count": Range(0)}

    size: int = equinox.field(static=True, default=8)  # cells along each side, walls around it included
    count: int = equinox.field(static=True, default=14)  # draws of a cell of the inside that becomes a wall

    mission = "get to the green goal square"

    @property
    def height(self) -> int:
        return self.size

    @property
    def width(self) -> int:
        return self.size

    @property
    def usual_max_steps(self) -> int:
        return 8 * self.size

    def generate(self, key: Key[Array, ""]) -> Level:
        keys = jax.random.split(key)
        where, lies, turn = uniforms(keys[0], 3)
        inside = draw_walls(keys[1], self.size - 2, self.size - 2, self.count)
        border = jnp.asarray(walled_grid(self.size, self.size))
        grid = border.at[1:-1, 1:-1].set(jnp.where(inside, jnp.uint8(WALL_CELL), jnp.uint8(EMPTY)))
        x, y = pick(empty_cells(grid), where)
        alone = ~(reached(empty_cells(grid), x, y) & empty_cells(grid, x, y)).any()
        grid = jnp.where(alone, border, grid)
        x, y = (jnp.maximum(axis, 1) for axis in (x, y))  # where all was wall there was no free cell
        goals = reached(empty_cells(grid), x, y) & empty_cells(grid, x, y)
        grid = put(grid, *pick(goals, lies), GOAL_CELL)
        return level(grid, x, y, uniform_integer(turn, 0, 4))


def reached(open_cells: Bool[Array, "height width"], x: Any, y: Any) -> Bool[Array, "height width"]:
    """Return the open cells that can be walked to from one of them."""
    columns, rows = axes(open_cells)
    there = (columns == x) & (rows == y)

    def wider(_: Any, there: Bool[Array, "height width"]) -> Bool[Array, "height width"]:
        padded = jnp.pad(there, 1)
        beside = padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
        return there | (beside & open_cells)

    return jax.lax.fori_loop(0, open_cells.size // 2, wider, there)
