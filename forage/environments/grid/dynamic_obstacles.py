"""DynamicObstacles: an empty room with moving balls; walking into one is costly.

Layouts, rules and limits are those of the `minigrid` package (Chevalier-Boisvert et al., 2023, arXiv 2306.13831).
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Step
from forage.environments.grid.cells import BALL, BLUE, EMPTY, GOAL, GOAL_CELL, cell
from forage.environments.grid.core import FORWARD, LEFT, Aim, GridState, Level, Number, act
from forage.environments.grid.empty import Square
from forage.environments.grid.layout import empty_cells, level, pick, put, uniform_integer, uniforms, walled_grid
from forage.environments.grid.view import cells_at, heading


class DynamicObstacles(Square):
    """An empty room with the goal in the far corner and balls that move before the agent does.

    Each ball in turn moves to an empty cell among the eight around it, any as likely as the others, and stays where
    there is none. Walking into a ball that was in front before they moved, or into a wall, ends the episode with -1.
    Only the actions left, right and forward are offered. `places` are the balls' first cells, in the order they move.

    The package draws a cell among nine until one is free, and gives up after 101 draws; where only one is free, that
    happens once in 150,000 moves, and here never.
    """

    ranges: ClassVar[Ranges] = {"obstacles": Range(1)}

    obstacles: int = equinox.field(default=4, static=True)
    random_start: bool = equinox.field(default=False, static=True)
    see_through_walls: bool = equinox.field(default=True, static=True, kw_only=True)

    mission = "get to the green goal square"

    def __check_init__(self) -> None:
        most = (self.size - 2) ** 2 - 2
        if not 1 <= self.obstacles <= most:
            raise ForageError(
                f"DynamicObstacles of size {self.size} cannot have {self.obstacles} obstacles; 1 to {most} work."
            )

    @property
    def num_places(self) -> int:
        return self.obstacles

    @property
    def usual_max_steps(self) -> int:
        return 4 * self.size**2

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(3)

    @property
    def return_range(self) -> tuple[float, float]:
        """Return the range of the one reward of an episode: a hit costs 1."""
        return -1.0, 1.0

    def generate(self, key: Key[Array, ""]) -> Level:
        fixed = walled_grid(self.size, self.size)
        fixed[-2, -2] = GOAL_CELL
        grid = jnp.asarray(fixed)
        where, turn, *lies = uniforms(key, 2 + self.obstacles)
        x, y, direction = jnp.int32(1), jnp.int32(1), jnp.int32(0)
        if self.random_start:
            (x, y), direction = pick(empty_cells(grid), where), uniform_integer(turn, 0, 4)
        places = []
        for lie in lies:
            column, row = pick(empty_cells(grid, x, y), lie)
            grid = put(grid, column, row, cell(BALL, BLUE))
            places.append(row * self.size + column)
        return level(grid, x, y, direction, places=places)

    def draw(self, key: Key[Array, ""]) -> Float[Array, " obstacles"]:
        """Return a uniform number for each ball, to select one of its empty neighbours, counted row by row."""
        return uniforms(key, self.obstacles)

    def advance(self, state: GridState, action: Number, draws: Float[Array, " obstacles"]) -> tuple[GridState, Step]:
        action = jnp.where(action > FORWARD, LEFT, action)
        step_x, step_y = heading(state.direction)
        front = cells_at(state.grid, state.x + step_x, state.y + step_y)
        hit = (action == FORWARD) & (front != EMPTY) & (front & 0x8F != GOAL)

        grid, places = state.grid, []
        for number in range(self.obstacles):
            place = self._move_ball(grid, state, state.places[number], draws[number])
            y, x = jnp.divmod(state.places[number], self.size)
            new_y, new_x = jnp.divmod(place, self.size)
            grid = put(put(grid, x, y, EMPTY), new_x, new_y, cell(BALL, BLUE))
            places.append(place)
        after, front = act(state._replace(grid=grid, places=jnp.stack(places)), action)
        success, over = self.judge(state, after, action, front)
        step = self.outcome(after, success & ~hit, over | hit)
        return after, step._replace(reward=jnp.where(hit, jnp.float32(-1), step.reward))

    def _move_ball(self, grid: Array, state: GridState, place: Number, uniform: Array) -> Number:
        """Return the next place of the ball at `place`."""
        steps = np.array([(dy * self.size + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)], np.int32)
        around = place + steps
        agent = state.y * self.size + state.x
        empty = (grid.reshape(-1).at[around].get(mode="clip") == EMPTY) & (around != agent)
        ranks = jnp.cumsum(empty.astype(jnp.int32))
        chosen = jnp.argmax(ranks > uniform_integer(uniform, 0, ranks[-1]))
        return jnp.where(ranks[-1] > 0, around[chosen], place)

    def aim(self, state: GridState) -> Aim:
        return super().aim(state)._replace(absent=(cell(BALL, BLUE),))
