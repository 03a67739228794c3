"""Worlds of equal rooms side by side, with random doors, objects and agent.

As the `minigrid` package's `RoomGrid` (Chevalier-Boisvert et al., 2023, arXiv 2306.13831): neighbouring rooms share a
wall, and each shared wall has one place for a door.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from forage.core.types import ForageError
from forage.environments.grid.cells import EMPTY, WALL, WALL_CELL
from forage.environments.grid.core import PICKUP, Aim, Cell, GridState, GridWorld, Number
from forage.environments.grid.layout import Grid, Uniform, empty_cells, pick, put, rectangle, uniform_integer

SIDES = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""The sides of a room in the order of directions: right, down, left, up."""


class Doors(NamedTuple):
    """The door of each shared wall: the row of those between left and right, the column of the others."""

    right: Int[Array, "rows columns-1"]
    down: Int[Array, "rows-1 columns"]


class RoomWorld(GridWorld):
    """A world of `rows` x `columns` rooms, `room_size` cells wide with their walls."""

    @property
    def room_size(self) -> int:
        return 6

    @property
    def rows(self) -> int:
        return 1

    @property
    def columns(self) -> int:
        return 2

    def __check_init__(self) -> None:
        if self.room_size < 3 or self.rows < 1:
            raise ForageError(
                f"{type(self).__name__} cannot have {self.rows} rows of rooms of size {self.room_size}; "
                f"one row or more of rooms of size 3 or more works."
            )

    @property
    def height(self) -> int:
        return (self.room_size - 1) * self.rows + 1

    @property
    def width(self) -> int:
        return (self.room_size - 1) * self.columns + 1

    def walls(self) -> UInt8[np.ndarray, "height width"]:
        """Return the rooms without doors."""
        grid = np.full((self.height, self.width), EMPTY, np.uint8)
        grid[:: self.room_size - 1] = grid[:, :: self.room_size - 1] = WALL_CELL
        return grid

    @property
    def num_doors(self) -> int:
        """Numbers that `doors` needs."""
        return self.rows * (self.columns - 1) + (self.rows - 1) * self.columns

    def doors(self, uniform: Uniform) -> Doors:
        """Draw the position of the door in each shared wall."""
        step, across = self.room_size - 1, self.rows * (self.columns - 1)
        inner = uniform_integer(uniform, 1, step)
        right = inner[:across].reshape(self.rows, self.columns - 1)
        down = inner[across:].reshape(self.rows - 1, self.columns)
        return Doors(right + step * np.arange(self.rows)[:, None], down + step * np.arange(self.columns))

    def door_place(self, doors: Doors, column: Any, row: Any, side: int) -> tuple[Any, Any]:
        """Return the `(x, y)` of the door on a side of a room."""
        step, (right, down) = self.room_size - 1, SIDES[side]
        if right:
            line = column + (right > 0)
            return line * step, doors.right[row, line - 1]
        line = row + (down > 0)
        return doors.down[line - 1, column], line * step

    def room(self, grid: Grid, column: Any, row: Any) -> Bool[Array, "height width"]:
        """Return the cells of a room, walls included."""
        step = self.room_size - 1
        return rectangle(grid, column * step, row * step, self.room_size, self.room_size)

    def lay(self, grid: Grid, column: Any, row: Any, content: Any, uniform: Uniform) -> Grid:
        """Put content on an empty cell of a room, neither at the centre of the world nor next to it.

        The package means to keep clear of the agent, which at that time stands at the centre.
        """
        step, half = self.room_size - 1, self.room_size // 2
        centre_x, centre_y = self.columns // 2 * step + half, self.rows // 2 * step + half
        away = np.abs(np.arange(self.width) - centre_x) + np.abs(np.arange(self.height) - centre_y)[:, None] >= 2
        x, y = pick(empty_cells(grid) & self.room(grid, column, row) & away, uniform)
        return put(grid, x, y, content)

    def agent(self, grid: Grid, column: Any, row: Any, uniform: Uniform) -> tuple[Number, Number, Number]:
        """Draw `(x, y, direction)` on an empty cell of a room, before an empty cell or a wall."""
        clear = (grid == EMPTY) | (grid & 0x8F == WALL)
        ahead = jnp.stack([jnp.roll(clear, (-down, -right), (0, 1)) for right, down in SIDES])
        fits = ahead & (empty_cells(grid) & self.room(grid, column, row))
        x, line = pick(fits.reshape(-1, self.width), uniform)
        return x, line % self.height, line // self.height


class Fetch(RoomWorld):
    """A world of rooms; success is to pick up the target."""

    def judge(
        self, before: GridState, after: GridState, action: Number, cell: Cell
    ) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        success, over = super().judge(before, after, action, cell)
        fetched = (action == PICKUP) & (after.carrying == after.target)
        return success | fetched, over | fetched

    def aim(self, state: GridState) -> Aim:
        rows, columns = np.nonzero(np.asarray(state.grid) == np.asarray(state.target))
        return Aim(PICKUP, tuple((int(x), int(y)) for x, y in zip(columns, rows, strict=True)), "one target")
