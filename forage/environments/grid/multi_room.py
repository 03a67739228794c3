"""MultiRoom: a chain of rooms of random sizes with a door between each two; the goal is in the last.

Layouts, rules and limits are those of the `minigrid` package (Chevalier-Boisvert et al., 2023, arXiv 2306.13831).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError
from forage.environments.grid.cells import CLOSED_DOOR, EMPTY, GOAL_CELL, WALL_CELL, cell
from forage.environments.grid.core import GridWorld, Level
from forage.environments.grid.layout import empty_cells, level, pick, put, rectangle, uniform_integer, uniforms

SIDE = 25
"""Cells on each side of the world."""

SMALLEST = 4
"""Cells on each side of the smallest room, walls included."""

TRIES = 8
"""The number of attempts to place the next room before the chain ends."""

AT_ONCE = 4
"""Chains that are drawn at once; the first whole one is taken."""


class Room(NamedTuple):
    x: Int[Array, "*shape"]  # of the top left corner
    y: Int[Array, "*shape"]
    width: Int[Array, "*shape"]
    height: Int[Array, "*shape"]
    door_x: Int[Array, "*shape"]  # of the entry
    door_y: Int[Array, "*shape"]
    side: Int[Array, "*shape"]  # of the entry: 0 right, 1 below, 2 left, 3 above


class MultiRoom(GridWorld):
    """A chain of `rooms` rooms, each at most `largest` cells wide and high with its walls, in a 25 x 25 world.

    Each next room hangs on a random wall of the last one and overlaps none before it; it is tried 8 times. A chain
    that stays too short is drawn anew. Neighbouring doors differ in colour.
    """

    ranges: ClassVar[Ranges] = {"rooms": Range(1, 8), "largest": Range(4, 10)}

    rooms: int = equinox.field(default=6, static=True)
    largest: int = equinox.field(default=10, static=True)

    mission = "traverse the rooms to get to the goal"

    def __check_init__(self) -> None:
        if not 1 <= self.rooms <= 8 or not SMALLEST <= self.largest <= 10:
            raise ForageError(
                f"MultiRoom cannot have {self.rooms} rooms of size {self.largest}; 1 to 8 rooms of size 4 to 10 work."
            )

    @property
    def height(self) -> int:
        return SIDE

    @property
    def width(self) -> int:
        return SIDE

    @property
    def usual_max_steps(self) -> int:
        return 20 * self.rooms

    def generate(self, key: Key[Array, ""]) -> Level:
        chain_key, colour_key, key = jax.random.split(key, 3)
        rooms = self.chain(chain_key)
        where, turn, goal = uniforms(key, 3)
        grid = jnp.full((SIDE, SIDE), EMPTY, jnp.uint8)

        def walls(room: Room) -> Bool[Array, "25 25"]:
            inner = rectangle(grid, room.x + 1, room.y + 1, room.width - 2, room.height - 2)
            return rectangle(grid, room.x, room.y, room.width, room.height) & ~inner

        grid = jnp.where(jax.vmap(walls)(rooms).any(0), jnp.uint8(WALL_CELL), grid)
        if self.rooms > 1:
            doors = cell(CLOSED_DOOR, self._colours(uniforms(colour_key, self.rooms - 1)))
            nowhere = jnp.zeros((SIDE, SIDE), jnp.uint8)
            entries = jax.vmap(lambda room, door: put(nowhere, room.door_x, room.door_y, door))
            # No two doors are in one cell.
            entered = entries(jax.tree.map(lambda leaf: leaf[1:], rooms), doors).max(0)
            grid = jnp.where(entered > 0, entered, grid)
        first, last = (rectangle(grid, *(leaf[number] for leaf in rooms[:4])) for number in (0, -1))
        x, y = pick(empty_cells(grid) & first, where)
        grid = put(grid, *pick(empty_cells(grid, x, y) & last, goal), GOAL_CELL)
        return level(grid, x, y, uniform_integer(turn, 0, 4))

    def _colours(self, numbers: Array) -> Int[Array, " doors"]:
        """Return a colour for each door, different from the previous door's: that plus 1 to 5, modulo 6."""
        first, others = uniform_integer(numbers[:1], 0, 6), uniform_integer(numbers[1:], 1, 6)
        return jnp.cumsum(jnp.concatenate([first, others])) % 6

    def chain(self, key: Key[Array, ""]) -> Room:
        """Draw whole chains until there is one."""

        def draw(carry: tuple[Array, Room, Array]) -> tuple[Array, Room, Array]:
            key, *_ = carry
            key, now = jax.random.split(key)
            rooms, complete = jax.vmap(self._chain)(jax.random.split(now, AT_ONCE))
            first = jnp.argmax(complete)
            return key, jax.tree.map(lambda leaf: leaf[first], rooms), complete[first]

        nowhere = Room(*(jnp.zeros(self.rooms, jnp.int32) for _ in Room._fields))
        return jax.lax.while_loop(lambda carry: ~carry[2], draw, (key, nowhere, jnp.zeros((), bool)))[1]

    def _chain(self, key: Key[Array, ""]) -> tuple[Room, Bool[Array, ""]]:
        """Return one chain, and whether it has all its rooms."""
        first_key, *keys = jax.random.split(key, self.rooms)
        numbers = uniforms(first_key, 4)
        x, y = uniform_integer(numbers[:2], 0, SIDE - 2)
        width, height = uniform_integer(numbers[2:], SMALLEST, self.largest + 1)
        room = Room(x, y, width, height, x, y, jnp.int32(2))
        complete, rooms = is_inside(room), [room]
        for next_key in keys:
            tried = attach_rooms(room, jax.random.uniform(next_key, (5, TRIES)), self.largest)
            fits = is_inside(tried)
            for before in rooms[:-1]:  # all but the one it hangs on
                fits = fits & are_disjoint(tried, before)
            chosen = jnp.argmax(fits)
            complete = complete & fits[chosen]
            room = jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen], tried)
            rooms.append(room)
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rooms), complete


def is_inside(room: Room) -> Bool[Array, "*shape"]:
    """Return whether the room is in the world, a row before the last."""
    fits_x = (room.x >= 0) & (room.x + room.width <= SIDE)
    return fits_x & (room.y >= 0) & (room.y + room.height < SIDE)


def are_disjoint(room: Room, before: Room) -> Bool[Array, "*shape"]:
    """Return whether the package holds two rooms for not overlapping."""
    across = (room.x + room.width < before.x) | (before.x + before.width <= room.x)
    return across | (room.y + room.height < before.y) | (before.y + before.height <= room.y)


def attach_rooms(room: Room, numbers: Array, largest: int) -> Room:
    """Rooms hung on random walls of a room, one for each column of uniform numbers `[5, tries]`."""
    wall, along, width, height, shift = numbers
    turn = uniform_integer(wall, 0, 3)
    exit_side = turn + (turn >= room.side)  # any side but the entry's, in order
    on_side = exit_side % 2 == 0  # right or left
    offset = uniform_integer(along, 1, jnp.where(on_side, room.height, room.width) - 1)
    door_x = room.x + jnp.where(on_side, jnp.where(exit_side == 0, room.width - 1, 0), offset)
    door_y = room.y + jnp.where(on_side, offset, jnp.where(exit_side == 1, room.height - 1, 0))
    width, height = uniform_integer(width, SMALLEST, largest + 1), uniform_integer(height, SMALLEST, largest + 1)
    entry = (exit_side + 2) % 4
    slid_x, slid_y = (
        uniform_integer(shift, door - size + 2, door) for door, size in ((door_x, width), (door_y, height))
    )
    x = jnp.where(on_side, jnp.where(entry == 0, door_x - width + 1, door_x), slid_x)
    y = jnp.where(on_side, slid_y, jnp.where(entry == 1, door_y - height + 1, door_y))
    return Room(x, y, width, height, door_x, door_y, entry)
