"""DoorKey, GoToDoor and RedBlueDoors: worlds about doors.

Layouts, rules and limits are those of the `minigrid` package (Chevalier-Boisvert et al., 2023, arXiv 2306.13831).
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError
from forage.environments.grid.cells import (
    BLUE,
    CLOSED_DOOR,
    DOOR,
    EMPTY,
    GOAL_CELL,
    KEY,
    LOCKED_DOOR,
    RED,
    WALL_CELL,
    YELLOW,
    cell,
)
from forage.environments.grid.core import (
    DONE,
    TOGGLE,
    Aim,
    Cell,
    GridState,
    GridWorld,
    Level,
    Number,
    is_open,
    named_places,
    places_of,
)
from forage.environments.grid.empty import Square
from forage.environments.grid.layout import (
    axes,
    empty_cells,
    level,
    pick,
    put,
    rectangle,
    uniform_integer,
    uniforms,
    walled_grid,
)
from forage.environments.grid.missions import COLOUR


class DoorKey(Square):
    """A wall with a locked door in it: the key is on the agent's side, the goal on the other."""

    mission = "use the key to open the door and then get to the goal"

    @property
    def usual_max_steps(self) -> int:
        return 10 * self.size**2

    def generate(self, key: Key[Array, ""]) -> Level:
        size = self.size
        fixed = walled_grid(size, size)
        fixed[-2, -2] = GOAL_CELL
        wall, door, where, turn, lies = uniforms(key, 5)
        split = uniform_integer(wall, 2, size - 2)
        columns, _ = axes(fixed)  # pyrefly: ignore[bad-argument-type]
        grid = jnp.where(columns == split, jnp.uint8(WALL_CELL), jnp.asarray(fixed))
        x, y = pick(empty_cells(grid) & (columns < split), where)
        grid = put(grid, split, uniform_integer(door, 1, size - 2), cell(LOCKED_DOOR, YELLOW))
        grid = put(grid, *pick(empty_cells(grid, x, y) & (columns < split), lies), cell(KEY, YELLOW))
        return level(grid, x, y, uniform_integer(turn, 0, 4))


class GoToDoor(Square):
    """A room with four doors of different colours; the mission names one. Success is `done` next to it.

    `done` anywhere else and any `toggle` end the episode without reward. `target` is the door, `places` its cell.
    """

    ranges: ClassVar[Ranges] = {"size": Range(5)}

    size: int = equinox.field(default=5, static=True)
    see_through_walls: bool = equinox.field(default=True, static=True, kw_only=True)

    mission = f"go to the {COLOUR} door"
    num_places = 1

    @property
    def usual_max_steps(self) -> int:
        return 4 * self.size**2

    def generate(self, key: Key[Array, ""]) -> Level:
        size = self.size
        numbers = uniforms(key, 15)
        width, height = uniform_integer(numbers[:2], 5, size + 1)
        top, bottom = uniform_integer(numbers[2:4], 2, width - 2)
        left, right = uniform_integer(numbers[4:6], 2, height - 2)
        grid = jnp.full((size, size), EMPTY, jnp.uint8)
        inner = rectangle(grid, 1, 1, width - 2, height - 2)
        grid = jnp.where(rectangle(grid, 0, 0, width, height) & ~inner, jnp.uint8(WALL_CELL), grid)
        ranks = (numbers[6:12, None] > numbers[6:12]).sum(1)  # a random order of the six colours
        doors = ((top, 0), (bottom, height - 1), (0, left), (width - 1, right))
        for number, (x, y) in enumerate(doors):
            grid = put(grid, x, y, cell(CLOSED_DOOR, ranks[number]))
        x, y = pick((grid == EMPTY) & inner, numbers[12])
        chosen = uniform_integer(numbers[14], 0, 4)
        place = jnp.stack([jnp.asarray(y * size + x, jnp.int32) for x, y in doors])[chosen]
        return level(grid, x, y, uniform_integer(numbers[13], 0, 4), cell(CLOSED_DOOR, ranks[chosen]), (place,))

    def judge(
        self, before: GridState, after: GridState, action: Number, cell: Cell
    ) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        success, over = super().judge(before, after, action, cell)
        door_y, door_x = jnp.divmod(after.places[0], self.size)
        beside = jnp.abs(after.x - door_x) + jnp.abs(after.y - door_y) == 1
        done = action == DONE
        return success | (done & beside), over | done | (action == TOGGLE)

    def aim(self, state: GridState) -> Aim:
        kinds = (DOOR, CLOSED_DOOR, LOCKED_DOOR)
        doors = tuple(place for kind in kinds for place in places_of(state.grid, kind))
        return Aim(DONE, named_places(state), "a door", avoid=doors)


class RedBlueDoors(GridWorld):
    """A room with a red door in its left wall and a blue one in its right: open the red one, then the blue one.

    Opening the blue door first ends the episode without reward. `places` are the red door's and the blue one's.
    """

    ranges: ClassVar[Ranges] = {"size": Range(5)}

    size: int = equinox.field(default=8, static=True)

    mission = "open the red door then the blue door"
    num_places = 2

    def __check_init__(self) -> None:
        if self.size < 5:
            raise ForageError(f"RedBlueDoors cannot have size {self.size}; any size from 5 up works.")

    @property
    def height(self) -> int:
        return self.size

    @property
    def width(self) -> int:
        return 2 * self.size

    @property
    def usual_max_steps(self) -> int:
        return 20 * self.size**2

    def generate(self, key: Key[Array, ""]) -> Level:
        size, left = self.size, self.size // 2
        right = left + size - 1
        fixed = walled_grid(size, 2 * size)
        fixed[:, [left, right]] = WALL_CELL
        red, blue, where, turn = uniforms(key, 4)
        red, blue = uniform_integer(red, 1, size - 1), uniform_integer(blue, 1, size - 1)
        grid = jnp.asarray(fixed)
        x, y = pick(empty_cells(grid) & rectangle(grid, left, 0, size, size), where)
        grid = put(grid, left, red, cell(CLOSED_DOOR, RED))
        grid = put(grid, right, blue, cell(CLOSED_DOOR, BLUE))
        places = (red * 2 * size + left, blue * 2 * size + right)
        return level(grid, x, y, uniform_integer(turn, 0, 4), places=places)

    def judge(
        self, before: GridState, after: GridState, action: Number, cell: Cell
    ) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        success, over = super().judge(before, after, action, cell)
        red_before, blue_before = (is_open(before.grid, place) for place in before.places)
        red, blue = (is_open(after.grid, place) for place in after.places)
        opened = jnp.where(blue, red_before, success & ~(red & blue_before))
        return opened, over | blue | (red & blue_before)

    def aim(self, state: GridState) -> Aim:
        return Aim(TOGGLE, named_places(state), "a red and a blue door")
