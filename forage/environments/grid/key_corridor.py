"""KeyCorridor: a ball behind a locked door off a corridor, and its key in a room on the other side.

Layouts, rules and limits are those of the `minigrid` package (Chevalier-Boisvert et al., 2023, arXiv 2306.13831).
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from forage.core.ranges import Range, Ranges
from forage.environments.grid.cells import BALL, CLOSED_DOOR, EMPTY, KEY, LOCKED_DOOR, cell
from forage.environments.grid.core import Level
from forage.environments.grid.layout import level, put, uniform_integer, uniforms
from forage.environments.grid.missions import COLOUR
from forage.environments.grid.rooms import SIDES, Fetch


class KeyCorridor(Fetch):
    """Three columns of rooms, the middle one a corridor. Success is to pick up the ball.

    Doors are added to random walls, never to the locked room's, until every room can be reached.
    """

    ranges: ClassVar[Ranges] = {"room_size": Range(3), "rows": Range(1)}

    room_size: int = equinox.field(default=6, static=True)
    rows: int = equinox.field(default=3, static=True)

    mission = f"pick up the {COLOUR} ball"

    @property
    def columns(self) -> int:
        return 3

    @property
    def usual_max_steps(self) -> int:
        return 30 * self.room_size**2

    def generate(self, key: Key[Array, ""]) -> Level:
        rows, step = self.rows, self.room_size - 1
        door_key, colour_key, order_key, key = jax.random.split(key, 4)
        doors = self.doors(uniforms(door_key, self.num_doors))
        locked, key_row, lock, ball, ball_place, key_place, agent = uniforms(key, 7)
        locked, key_row = uniform_integer(locked, 0, rows), uniform_integer(key_row, 0, rows)
        lock, ball = uniform_integer(lock, 0, 6), cell(BALL, uniform_integer(ball, 0, 6))

        fixed = self.walls()
        fixed[step : step * rows : step, step + 1 : 2 * step] = EMPTY  # the corridor
        grid = put(jnp.asarray(fixed), *self.door_place(doors, 2, locked, 2), cell(LOCKED_DOOR, lock))
        grid = self.lay(grid, 2, locked, ball, ball_place)
        grid = self.lay(grid, 0, key_row, cell(KEY, lock), key_place)
        start = self.agent(grid, 1, rows // 2, agent)

        edges = self.edges()
        order = uniforms(order_key, len(edges))
        colours = uniform_integer(uniforms(colour_key, len(edges)), 0, 6)
        added = self.added(locked, order)
        for number, (column, row, side) in enumerate(edges):
            x, y = self.door_place(doors, column, row, side)
            grid = put(grid, x, y, cell(CLOSED_DOOR, colours[number]), when=added[number])
        return level(grid, *start, ball)

    def edges(self) -> list[tuple[int, int, int]]:
        """Return the shared walls that may get a door, each as a room `(column, row)` and its side 0 or 1."""
        across = [(column, row, 0) for row in range(self.rows) for column in (0, 1)]
        return across + [(column, row, 1) for row in range(self.rows - 1) for column in (0, 2)]

    def added(self, locked: Array, order: Float[Array, " edges"]) -> Bool[Array, " edges"]:
        """Return the walls to give a door: in random order, the shortest prefix that together connects every room.

        Its last wall is the largest number on the way to some room, along the ways with the smallest maximum.
        """
        edges, rooms = self.edges(), 3 * self.rows
        first = np.array([row * 3 + column for column, row, _ in edges])
        second = first + np.array([3 if SIDES[side][1] else 1 for *_, side in edges])
        touches = (first == 3 * locked + 2) | (second == 3 * locked + 2)
        cost = jnp.full((rooms, rooms), jnp.inf).at[np.arange(rooms), np.arange(rooms)].set(0.0)
        cost = cost.at[first, second].set(jnp.where(touches, jnp.inf, order))
        middle = np.arange(1, rooms - 3, 3)
        cost = cost.at[middle, middle + 3].set(0.0)
        row = np.arange(self.rows)  # the locked door itself
        cost = cost.at[3 * row + 1, 3 * row + 2].min(jnp.where(row == locked, 0.0, jnp.inf))
        cost = jnp.minimum(cost, cost.T)
        for via in range(rooms):
            cost = jnp.minimum(cost, jnp.maximum(cost[:, via, None], cost[via]))
        return ~touches & (order <= cost[1].max())
