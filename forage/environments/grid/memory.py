"""Memory: see an object, walk down a hallway, and go to the one like it.

Layouts, rules and limits are those of the `minigrid` package (Chevalier-Boisvert et al., 2023, arXiv 2306.13831).
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Step
from forage.environments.grid.cells import BALL, GREEN, KEY, WALL_CELL, cell
from forage.environments.grid.core import FORWARD, PICKUP, TOGGLE, Aim, Cell, GridState, Level, Number, named_places
from forage.environments.grid.empty import Square
from forage.environments.grid.layout import level, put, uniform_integer, uniforms, walled_grid


class Memory(Square):
    """A small room with a key or a ball, a hallway, and at its end one of each, above and below.

    Success is to stand beside the object that is like the first; standing beside the other ends the episode without
    reward. `places` are those two cells. `random_length` also draws where the hallway ends. Picking up toggles, which
    does nothing here.
    """

    ranges: ClassVar[Ranges] = {"size": Range(7)}

    size: int = equinox.field(default=13, static=True)
    random_length: bool = equinox.field(default=False, static=True)

    mission = "go to the matching object at the end of the hallway"
    num_places = 2

    def __check_init__(self) -> None:
        if self.size < 7 or self.size % 2 == 0:
            raise ForageError(f"Memory cannot have size {self.size}; an odd size from 7 up works.")

    @property
    def usual_max_steps(self) -> int:
        return 5 * self.size**2

    def generate(self, key: Key[Array, ""]) -> Level:
        size, middle = self.size, self.size // 2
        length, where, first, above = uniforms(key, 4)
        end = uniform_integer(length, 4, size - 2) if self.random_length else jnp.int32(size - 3)
        fixed = walled_grid(size, size)
        fixed[[middle - 2, middle + 2], 1:5] = WALL_CELL
        fixed[[middle - 1, middle + 1], 4] = WALL_CELL
        columns, rows = jnp.arange(size), jnp.arange(size)[:, None]
        hallway = (jnp.abs(rows - middle) == 1) & (columns >= 5) & (columns < end)
        sides = ((columns == end) & (rows != middle)) | (columns == end + 2)
        grid = jnp.where(hallway | sides, jnp.uint8(WALL_CELL), jnp.asarray(fixed))

        first, above = first < 0.5, above < 0.5  # whether it is a key
        for x, y, is_key in ((1, middle - 1, first), (end + 1, middle - 2, above), (end + 1, middle + 2, ~above)):
            grid = put(grid, x, y, jnp.where(is_key, cell(KEY, GREEN), cell(BALL, GREEN)))
        up, down = ((middle + side) * size + end + 1 for side in (-1, 1))
        same = first == above
        places = (jnp.where(same, up, down), jnp.where(same, down, up))
        return level(grid, uniform_integer(where, 1, end + 1), middle, 0, places=places)

    def advance(self, state: GridState, action: Number, draws: Any = ()) -> tuple[GridState, Step]:
        return super().advance(state, jnp.where(action == PICKUP, TOGGLE, action), draws)

    def judge(
        self, before: GridState, after: GridState, action: Number, cell: Cell
    ) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        success, over = super().judge(before, after, action, cell)
        matched, missed = after.y * self.size + after.x == after.places
        return (success | matched) & ~missed, over | matched | missed

    def aim(self, state: GridState) -> Aim:
        success, failure = named_places(state)
        return Aim(FORWARD, (success,), "a cell beside each object", avoid=(failure,))
