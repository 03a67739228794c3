"""The agent's view: the cells in front of it, rotated to its heading, without those hidden by walls and doors.

An image is `[column, row]` with the agent in the middle of the last row, as in MiniGrid.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from forage.environments.grid.cells import AGENT, CLEAR, RED, UNSEEN, WALL_CELL, encode_cells, look_up

VIEW = 7
"""Cells on each side of the view."""

Number = Int[Array, ""]
Cells = UInt8[Array, "height width"]


def heading(direction: Number) -> tuple[Number, Number]:
    """Return the step `(x, y)` forward: directions are right, down, left, up, and y points down."""

    def sign(plus: int, minus: int) -> Number:
        return (direction == plus).astype(jnp.int32) - (direction == minus).astype(jnp.int32)

    return sign(0, 2), sign(1, 3)


def cells_at(grid: Cells, x: Int[Array, "*shape"], y: Int[Array, "*shape"]) -> UInt8[Array, "*shape"]:
    """Return the cells at positions within the grid."""
    return grid.reshape(-1).at[y * grid.shape[1] + x].get(mode="clip")


def positions(x: Number, y: Number, direction: Number) -> tuple[Int[Array, "7 7"], Int[Array, "7 7"]]:
    """Return the grid position of each cell of the view."""
    forward_x, forward_y = heading(direction)
    right = jnp.arange(VIEW, dtype=jnp.int32)[:, None] - VIEW // 2
    ahead = VIEW - 1 - jnp.arange(VIEW, dtype=jnp.int32)[None, :]
    return x + forward_x * ahead - forward_y * right, y + forward_y * ahead + forward_x * right


def _sweep_table() -> UInt8[np.ndarray, "clear_lit light"]:
    """Return the spread of light in one row of the view, for each 7-bit row of clear and of lit cells.

    Light passes from a lit, clear cell to its neighbours in the row, first rightward, then leftward, and to the three
    cells ahead that the passes touch. Return the lit cells of the row, and those ahead of it.
    """
    clear, lit = np.meshgrid(np.arange(1 << VIEW), np.arange(1 << VIEW), indexing="ij")
    ahead = np.zeros_like(lit)
    for columns, side in ((range(VIEW - 1), 1), (range(VIEW - 1, 0, -1), -1)):
        for column in columns:
            passes = lit & clear & (1 << column)
            beside = passes << 1 if side > 0 else passes >> 1
            lit = lit | beside
            ahead = ahead | passes | beside
    return np.stack([lit, ahead], -1).astype(np.uint8).reshape(-1, 2)


_LIGHT = _sweep_table().astype(np.uint16) @ np.array([1, 1 << VIEW], np.uint16)


def visible(cells: UInt8[Array, "7 7"]) -> Bool[Array, "7 7"]:
    """Return the mask of visible cells in a view: MiniGrid's sweep, one table entry a row, from the agent forward."""
    bits = jnp.arange(VIEW, dtype=jnp.uint8)[:, None]
    clear = (look_up(CLEAR, cells) << bits).sum(0, dtype=jnp.uint8).astype(jnp.uint16)
    rows: list[Array] = []
    lit = jnp.uint16(1 << VIEW // 2)
    for row in reversed(range(VIEW)):
        light = look_up(_LIGHT, clear[row] << VIEW | lit)
        rows.insert(0, light & ((1 << VIEW) - 1))
        lit = light >> VIEW
    return jnp.stack(rows).astype(jnp.uint8)[None, :] >> bits & 1 != 0


def visible_cells(
    grid: Cells, x: Number, y: Number, direction: Number, carrying: UInt8[Array, ""], see_through_walls: bool
) -> UInt8[Array, "7 7"]:
    """Return the cells of the view: walls beyond the grid, the carried object at the agent, 0 for hidden cells."""
    view_x, view_y = positions(x, y, direction)
    inside = (view_x >= 0) & (view_x < grid.shape[1]) & (view_y >= 0) & (view_y < grid.shape[0])
    cells = jnp.where(inside, cells_at(grid, view_x, view_y), jnp.uint8(WALL_CELL))
    if not see_through_walls:
        cells = jnp.where(visible(cells), cells, jnp.uint8(UNSEEN))
    here = np.zeros((VIEW, VIEW), bool)
    here[VIEW // 2, VIEW - 1] = True
    return jnp.where(here, carrying, cells)


def full_view(grid: Cells, x: Number, y: Number, direction: Number) -> UInt8[Array, "width height 3"]:
    """Return the whole grid with the agent in it, as MiniGrid's `FullyObsWrapper` shows it."""
    height, width = grid.shape
    here = (jnp.arange(width)[:, None] == x) & (jnp.arange(height) == y)
    agent = jnp.stack([jnp.uint8(AGENT), jnp.uint8(RED), direction.astype(jnp.uint8)])
    return jnp.where(here[:, :, None], agent, encode_cells(grid.T))
