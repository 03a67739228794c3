"""Pictures of grid worlds in the style of the other environments."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, UInt8

from forage.environments import drawing
from forage.environments.grid import view
from forage.environments.grid.cells import (
    BALL,
    BOX,
    CLOSED_DOOR,
    DOOR,
    EMPTY,
    FLOOR,
    GOAL,
    HOLDS,
    KEY,
    LAVA,
    LOCKED_DOOR,
    WALL,
)
from forage.environments.grid.core import GridState

PAINT: tuple[drawing.Colour, ...] = (
    drawing.RED,
    drawing.GREEN,
    drawing.BLUE,
    (131, 96, 168),
    drawing.GOLD,
    drawing.STONE,
)
"""The drawn colour of each of MiniGrid's."""

LARGEST = 28
"""Pixels on each side of a cell, in small worlds."""

SIDE = 420
"""Pixels that a large world is kept within."""


def draw_grid(state: GridState, see_through_walls: bool) -> UInt8[np.ndarray, "height width 3"]:
    """Draw a state: the world, lighter in the agent's view, and the agent as a wedge with its carried object."""
    grid = np.asarray(state.grid)
    height, width = grid.shape
    side = int(np.clip(SIDE // max(height, width), 10, LARGEST))
    canvas = drawing.Canvas(width * side, height * side, (0, height, width, 0), drawing.MIST)
    seen = lit(state, see_through_walls)
    for y, x in np.ndindex(height, width):
        _cell(canvas, x, y, int(grid[y, x]), bool(seen[y, x]), side)
    _agent(canvas, int(state.x), int(state.y), int(state.direction))
    if state.carrying != EMPTY:
        corner = (int(state.x) + 0.62, int(state.y) + 0.62)
        canvas.circle((corner[0] + 0.19, corner[1] + 0.19), 0.25, drawing.PAPER)
        _thing(canvas, *corner, int(state.carrying), 0.38, side)
    return canvas.array()


def lit(state: GridState, see_through_walls: bool) -> Bool[np.ndarray, "height width"]:
    """Return the mask of grid cells in the agent's view."""
    grid, x, y, direction = (jnp.asarray(leaf) for leaf in state[:4])
    cells = np.asarray(view.visible_cells(grid, x, y, direction, jnp.uint8(EMPTY), see_through_walls))
    columns, rows = (np.asarray(axis) for axis in view.positions(x, y, direction))
    height, width = np.shape(state.grid)
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height) & (cells != 0)
    mask = np.zeros((height, width), bool)
    mask[rows[inside], columns[inside]] = True
    return mask


def _cell(canvas: drawing.Canvas, x: int, y: int, content: int, seen: bool, side: int) -> None:
    kind, colour = content & (HOLDS | 15), PAINT[min(content >> 4 & 7, 5)]
    floor = drawing.PAPER if seen else drawing.MIST

    def fill(paint: drawing.Colour, inset: float = 0.0, rounding: float = 0.0) -> None:
        canvas.rectangle((x + inset, y + inset), (x + 1 - inset, y + 1 - inset), paint, rounding)

    if kind == WALL:
        plain = drawing.mix(drawing.INK, drawing.PAPER, 0.18 if seen else 0.08)
        fill(plain if colour == drawing.STONE else drawing.mix(plain, colour, 0.6))
        return
    # The seams between cells, as a paler line than the floor of what is hidden.
    fill(drawing.mix(floor, drawing.STONE, 0.25))
    fill(floor, 0.5 / side)
    if kind == FLOOR:
        fill(drawing.mix(colour, floor, 0.7), 1 / side)
    elif kind == GOAL:
        fill(drawing.mix(colour, floor, 0.15), 0.06, 0.12 * side)
    elif kind == LAVA:
        fill(drawing.ORANGE)
        for wave in range(3):
            middle = y + 0.28 + 0.22 * wave
            points = [(x + 0.12 + 0.19 * step, middle + (0.06 if step % 2 else -0.06)) for step in range(5)]
            canvas.line(points, drawing.mix(drawing.ORANGE, drawing.INK, 0.55), max(1.0, 0.06 * side))
    elif kind in (DOOR, CLOSED_DOOR, LOCKED_DOOR):
        _door(canvas, x, y, kind, colour, floor)
    elif kind != EMPTY:
        _thing(canvas, x, y, content, 1.0, side)


def _door(canvas: drawing.Canvas, x: int, y: int, kind: int, colour: drawing.Colour, floor: drawing.Colour) -> None:
    if kind == DOOR:
        canvas.rectangle((x + 0.80, y), (x + 1, y + 1), colour)
        canvas.rectangle((x + 0.85, y + 0.06), (x + 0.95, y + 0.94), drawing.mix(colour, floor, 0.6))
        return
    canvas.rectangle((x, y), (x + 1, y + 1), colour)
    inner = drawing.mix(colour, floor, 0.15) if kind == LOCKED_DOOR else drawing.mix(colour, floor, 0.65)
    canvas.rectangle((x + 0.12, y + 0.12), (x + 0.88, y + 0.88), inner)
    if kind == LOCKED_DOOR:
        canvas.circle((x + 0.5, y + 0.42), 0.15, drawing.INK)
        canvas.rectangle((x + 0.43, y + 0.42), (x + 0.57, y + 0.74), drawing.INK)
    else:
        canvas.circle((x + 0.72, y + 0.5), 0.09, drawing.mix(colour, drawing.INK, 0.5))


def _thing(canvas: drawing.Canvas, x: Any, y: Any, content: int, scale: float, side: int) -> None:
    """Draw a key, a ball or a box in the square of side `scale` with its corner at `(x, y)`."""
    kind, colour = content & (HOLDS | 15), PAINT[min(content >> 4 & 7, 5)]

    def point(across: float, down: float) -> drawing.Point:
        return float(x) + across * scale, float(y) + down * scale

    if kind == KEY:
        canvas.rectangle(point(0.45, 0.36), point(0.58, 0.88), colour)
        canvas.rectangle(point(0.58, 0.60), point(0.74, 0.70), colour)
        canvas.rectangle(point(0.58, 0.78), point(0.74, 0.88), colour)
        canvas.ring(point(0.515, 0.27), 0.18 * scale, colour, max(1.0, 0.09 * scale * side))
    elif kind == BALL:
        canvas.circle(point(0.5, 0.5), 0.31 * scale, colour)
    elif kind == BOX or content & HOLDS:
        dark = drawing.mix(colour, drawing.INK, 0.45)
        canvas.rectangle(point(0.14, 0.2), point(0.86, 0.84), dark)
        canvas.rectangle(point(0.20, 0.26), point(0.80, 0.46), colour)
        canvas.rectangle(point(0.20, 0.52), point(0.80, 0.78), colour)


def _agent(canvas: drawing.Canvas, x: int, y: int, direction: int) -> None:
    turn = np.array([[0, -1], [1, 0]])
    wedge = np.array([(0.36, 0.0), (-0.30, 0.30), (-0.16, 0.0), (-0.30, -0.30)])
    wedge = wedge @ np.linalg.matrix_power(turn, direction).T + (x + 0.5, y + 0.5)
    canvas.polygon([(float(across), float(down)) for across, down in wedge], drawing.TEAL)
