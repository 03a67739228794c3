"""Unlock, UnlockPickup and BlockedUnlockPickup: two rooms, a locked door between them, and its key.

Layouts, rules and limits are those of the `minigrid` package (Chevalier-Boisvert et al., 2023, arXiv 2306.13831).
"""

from __future__ import annotations

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key

from forage.environments.grid.cells import BALL, BOX, KEY, LOCKED_DOOR, cell
from forage.environments.grid.core import TOGGLE, Aim, Cell, GridState, Level, Number, is_open, named_places
from forage.environments.grid.layout import level, put, uniform_integer, uniforms
from forage.environments.grid.missions import COLOUR
from forage.environments.grid.rooms import Fetch, RoomWorld


class Unlock(RoomWorld):
    """Success is to open the locked door at `places[0]`."""

    mission = "open the door"
    num_places = 1

    @property
    def usual_max_steps(self) -> int:
        return 8 * self.room_size**2

    def generate(self, key: Key[Array, ""]) -> Level:
        door, colour, lies, where = uniforms(key, 4)
        x, y = self.door_place(self.doors(door[None]), 0, 0, 0)
        grid = put(jnp.asarray(self.walls()), x, y, cell(LOCKED_DOOR, uniform_integer(colour, 0, 6)))
        grid = self.lay(grid, 0, 0, cell(KEY, uniform_integer(colour, 0, 6)), lies)
        return level(grid, *self.agent(grid, 0, 0, where), places=(y * self.width + x,))

    def judge(
        self, before: GridState, after: GridState, action: Number, cell: Cell
    ) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        success, over = super().judge(before, after, action, cell)
        opened = (action == TOGGLE) & is_open(after.grid, after.places[0])
        return success | opened, over | opened

    def aim(self, state: GridState) -> Aim:
        return Aim(TOGGLE, named_places(state), "a locked door")


class UnlockPickup(Fetch):
    """Success is to pick up the box in the room behind the door. With `blocked`, a ball blocks the door."""

    blocked: bool = equinox.field(default=False, static=True)

    mission = f"pick up the {COLOUR} box"

    @property
    def usual_max_steps(self) -> int:
        return (16 if self.blocked else 8) * self.room_size**2

    def generate(self, key: Key[Array, ""]) -> Level:
        door, *places, where = uniforms(key, 4)
        box, lock, ball = uniform_integer(uniforms(jax.random.fold_in(key, 1), 3), 0, 6)
        grid = self.lay(jnp.asarray(self.walls()), 1, 0, cell(BOX, box), places[0])
        x, y = self.door_place(self.doors(door[None]), 0, 0, 0)
        grid = put(grid, x, y, cell(LOCKED_DOOR, lock))
        if self.blocked:
            grid = put(grid, x - 1, y, cell(BALL, ball))
        grid = self.lay(grid, 0, 0, cell(KEY, lock), places[1])
        return level(grid, *self.agent(grid, 0, 0, where), cell(BOX, box))
