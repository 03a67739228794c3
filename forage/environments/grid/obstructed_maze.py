"""ObstructedMaze: a blue ball behind locked doors, with keys hidden in boxes and balls in the way.

Layouts, rules and limits are those of the `minigrid` package (Chevalier-Boisvert et al., 2023, arXiv 2306.13831).
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError
from forage.environments.grid.cells import BALL, BLUE, CLOSED_DOOR, GREEN, GREY, KEY, LOCKED_DOOR, box_with, cell
from forage.environments.grid.core import Level
from forage.environments.grid.layout import Grid, level, put, uniform_integer, uniforms
from forage.environments.grid.missions import COLOUR
from forage.environments.grid.rooms import SIDES, Doors, Fetch

TARGET = cell(BALL, BLUE)
BLOCKER = cell(BALL, GREEN)
CENTRE = (1, 1)
SIDE_ROOMS = ((2, 1), (1, 2), (0, 1), (1, 0))
CORNERS = ((2, 0), (2, 2), (0, 2), (0, 0))


class ObstructedMaze(Fetch):
    """Success is to pick up the blue ball.

    With 0 `quarters`, two rooms with a locked door between them (the package's 1D levels). With 1 to 4, a square of
    3 x 3 rooms: as many side rooms open to the centre, each with locked doors to the corners beside it, and the ball is
    in one of as many corners. `hidden` puts the keys in grey boxes, `blocked` a green ball before each locked door.

    The package's first versions (v0) place each key before the next door's ball, which may then land on it; such a
    level cannot be solved. Its later versions (v1) place a room's keys after its balls: that is `keys_last`.
    """

    ranges: ClassVar[Ranges] = {"quarters": Range(0, 4), "rooms_visited": Range(1)}

    quarters: int = equinox.field(default=4, static=True)
    hidden: bool = equinox.field(default=True, static=True)
    blocked: bool = equinox.field(default=True, static=True)
    agent_room: tuple[int, int] = equinox.field(default=CENTRE, static=True)  # column and row; (0, 0) in two rooms
    rooms_visited: int = equinox.field(default=25, static=True)  # by the time limit: 144 steps each
    keys_last: bool = equinox.field(default=True, static=True)

    mission = f"pick up the {COLOUR} ball"

    def __check_init__(self) -> None:
        column, row = self.agent_room
        if not 0 <= self.quarters <= 4:
            raise ForageError(f"ObstructedMaze cannot have {self.quarters} quarters; 0 to 4 work.")
        if not (0 <= column < self.columns and 0 <= row < self.rows):
            raise ForageError(
                f"ObstructedMaze has no room {self.agent_room} for the agent; columns are 0 to {self.columns - 1} and "
                f"rows 0 to {self.rows - 1}."
            )

    @property
    def rows(self) -> int:
        return 3 if self.quarters else 1

    @property
    def columns(self) -> int:
        return 3 if self.quarters else 2

    @property
    def usual_max_steps(self) -> int:
        return 4 * self.rooms_visited * self.room_size**2

    def generate(self, key: Key[Array, ""]) -> Level:
        door_key, colour_key, places_key = jax.random.split(key, 3)
        doors = self.doors(uniforms(door_key, self.num_doors))
        order = uniforms(colour_key, 6)
        colours = (order[:, None] > order).sum(1)  # the six colours in a random order
        *places, corner, ball, agent = uniforms(places_key, 2 * max(self.quarters, 1) + 3)
        grid = jnp.asarray(self.walls())

        if not self.quarters:
            grid = self._block_door(grid, doors, (0, 0), 0, colours[0])
            grid = self._key(grid, (0, 0), colours[0], places[0])
            ball_column, ball_row = 1, 0
        else:
            for side, room in enumerate(SIDE_ROOMS[: self.quarters]):
                grid = put(grid, *self.door_place(doors, *CENTRE, side), cell(CLOSED_DOOR, colours[side]))
                locked = [((side + turn) % 4, colours[(side + turn) % 6]) for turn in (-1, 1)]
                if self.keys_last:
                    for at, colour in locked:
                        grid = self._block_door(grid, doors, room, at, colour)
                for number, (at, colour) in enumerate(locked):
                    if not self.keys_last:
                        grid = self._block_door(grid, doors, room, at, colour)
                    grid = self._key(grid, room, colour, places[2 * side + number])
            corners = jnp.asarray(CORNERS[: self.quarters])
            ball_column, ball_row = corners[uniform_integer(corner, 0, self.quarters)]

        grid = self.lay(grid, ball_column, ball_row, TARGET, ball)
        return level(grid, *self.agent(grid, *self.agent_room, agent), TARGET)

    def _block_door(self, grid: Grid, doors: Doors, room: tuple[int, int], side: int, colour: Array) -> Grid:
        x, y = self.door_place(doors, *room, side)
        grid = put(grid, x, y, cell(LOCKED_DOOR, colour))
        right, down = SIDES[side]
        return put(grid, x - right, y - down, BLOCKER) if self.blocked else grid

    def _key(self, grid: Grid, room: tuple[int, int], colour: Array, uniform: Array) -> Grid:
        content = cell(KEY, colour)
        return self.lay(grid, *room, box_with(GREY, content) if self.hidden else content, uniform)
