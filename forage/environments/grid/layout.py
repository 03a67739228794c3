"""Tools for drawing levels: borders, cells, uniform choices. A generator draws all its uniform numbers at once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt8

from forage.environments.grid.cells import EMPTY, WALL_CELL
from forage.environments.grid.core import Level

Uniform = Float[Array, "*shape"]
Grid = UInt8[Array, "height width"]


def walled_grid(height: int, width: int) -> UInt8[np.ndarray, "height width"]:
    """Return an empty grid inside a wall."""
    grid = np.full((height, width), WALL_CELL, np.uint8)
    grid[1:-1, 1:-1] = EMPTY
    return grid


def uniforms(key: Key[Array, ""], count: int) -> Float[Array, " count"]:
    """Uniform numbers in [0, 1)."""
    bits = jax.random.bits(key, (count,), jnp.uint32) >> jnp.uint32(9)
    # The remainder changes nothing. But XLA on the CPU would draw the numbers again for each cell that hangs on them,
    # were there not something on the way that it holds for costly, and integer division is the cheapest such thing.
    return jax.lax.rem(bits, jnp.uint32((1 << 23) + 1)).astype(jnp.float32) * jnp.float32(2**-23)


def uniform_integer(uniform: Uniform, low: Any, high: Any) -> Int[Array, "*shape"]:
    """Turn a uniform number in [0, 1) into a whole one in `low ... high - 1`, evenly."""
    return (low + jnp.floor(uniform * (jnp.asarray(high) - low))).astype(jnp.int32)


def axes(grid: Grid) -> tuple[Int[Array, " width"], Int[Array, "height 1"]]:
    """Return the x and y of every cell."""
    height, width = grid.shape
    return jnp.arange(width, dtype=jnp.int32), jnp.arange(height, dtype=jnp.int32)[:, None]


def put(grid: Grid, x: Any, y: Any, content: Any, when: Any = True) -> Grid:
    """Return the grid with `content` at `(x, y)`."""
    columns, rows = axes(grid)
    return jnp.where((columns == x) & (rows == y) & when, jnp.asarray(content).astype(jnp.uint8), grid)


def rectangle(grid: Grid, x: Any, y: Any, width: Any, height: Any) -> Bool[Array, "height width"]:
    """Return the cells of a rectangle."""
    columns, rows = axes(grid)
    return (columns >= x) & (columns < x + width) & (rows >= y) & (rows < y + height)


def pick(mask: Bool[Array, "rows columns"], uniform: Uniform) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """Return the `(column, row)` of a set entry, drawn uniformly; `(0, 0)` if none is set."""
    counts = mask.sum(1, dtype=jnp.int32)
    ends = jnp.cumsum(counts)
    rank = uniform_integer(uniform, 0, ends[-1])
    row = (ends <= rank).sum(dtype=jnp.int32)
    line = mask[jnp.minimum(row, mask.shape[0] - 1)]
    column = (jnp.cumsum(line.astype(jnp.int32)) <= rank - jnp.where(ends <= rank, counts, 0).sum()).sum()
    found = ends[-1] > 0
    return jnp.where(found, column, 0).astype(jnp.int32), jnp.where(found, row, 0)


def empty_cells(grid: Grid, x: Any = -1, y: Any = -1) -> Bool[Array, "height width"]:
    """Return the empty cells other than `(x, y)`."""
    columns, rows = axes(grid)
    return (grid == EMPTY) & ~((columns == x) & (rows == y))


def level(grid: Any, x: Any, y: Any, direction: Any, target: Any = 0, places: Any = ()) -> Level:
    """Return a level of the right types."""
    x, y, direction = (jnp.asarray(value, jnp.int32) for value in (x, y, direction))
    listed = jnp.stack([jnp.asarray(place, jnp.int32) for place in places]) if places else jnp.zeros(0, jnp.int32)
    return Level(jnp.asarray(grid, jnp.uint8), x, y, direction, jnp.asarray(target).astype(jnp.uint8), listed)
