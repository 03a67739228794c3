"""Maze: walls, start and goal as plain fields of the environment, for curricula that draw, mutate and replay levels.

The task is that of Dennis et al. (2020), "Emergent Complexity and Zero-shot Transfer via Unsupervised Environment
Design", arXiv 2012.02096: find the goal in a partly seen maze, 250 steps. What is seen differs: here 7 x 7 cells, of
which walls hide some, as MiniGrid has it; in the authors' `AdversarialEnv` 5 x 5 cells, through walls.
"""

from __future__ import annotations

from typing import Any

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from forage.core.types import ForageError
from forage.environments.grid.cells import EMPTY, GOAL_CELL, WALL_CELL
from forage.environments.grid.core import GridWorld, Level
from forage.environments.grid.layout import free, level, pick, put, uniforms, walled, whole


def no_walls() -> Bool[Array, "13 13"]:
    """Return the inside of the usual size, empty."""
    return jnp.zeros((13, 13), bool)


def whole_numbers(value: Any) -> Int[Array, "*shape"]:
    """Return an `int32` array of what was given."""
    return jnp.asarray(value, jnp.int32)


class Maze(GridWorld):
    """A maze whose inside is `walls`: true where there is a wall. A border of walls is added around it.

    `start` and `goal` are `(x, y)` within the inside, `heading` a direction; where one is negative it is drawn anew in
    each episode, start and goal on free cells of their own. All are traced, so mazes go in batches:

        walls = jax.vmap(lambda key: draw_walls(key, 13, 13, 50))(keys)
        mazes = jax.vmap(lambda walls: with_fields(Maze(), walls=walls))(walls)

    Walls under a given start or goal are removed. Nothing says that the goal can be reached: see `check_level`.
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
        grid = jnp.asarray(walled(self.height, self.width)).at[1:-1, 1:-1].set(inside)
        given, end_given = self.start[0] >= 0, self.goal[0] >= 0
        grid = put(grid, self.goal[0] + 1, self.goal[1] + 1, GOAL_CELL, when=end_given)
        grid = put(grid, self.start[0] + 1, self.start[1] + 1, EMPTY, when=given)
        drawn = pick(free(grid), where)
        x, y = (jnp.where(given, self.start[axis] + 1, drawn[axis]) for axis in (0, 1))
        grid = put(grid, *pick(free(grid, x, y), lies), GOAL_CELL, when=~end_given)
        return level(grid, x, y, jnp.where(self.heading >= 0, self.heading, whole(turn, 0, 4)))


def draw_walls(key: Key[Array, ""], rows: int, columns: int, count: int) -> Bool[Array, "rows columns"]:
    """Random walls: `count` draws of a cell, each any cell, so cells drawn twice make fewer."""
    cells = whole(uniforms(key, count), 0, rows * columns)
    return jnp.zeros(rows * columns, bool).at[cells].set(True).reshape(rows, columns)
