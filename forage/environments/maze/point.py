"""A point mass in a maze, pushed by forces; and the task of reaching goals in it."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Step
from forage.environments import drawing
from forage.environments.limits import check_at_least
from forage.environments.maze import layouts
from forage.environments.maze.collision import slide
from forage.environments.wrappers.goals import GoalConditioned


def _flags(value: Any) -> Bool[Array, "row column"]:
    return jnp.asarray(value, bool)


class PointMassState(NamedTuple):
    position: Float[Array, "xy=2"]  # m, from the middle of the maze, y upward
    velocity: Float[Array, "xy=2"]  # m/s
    time: Int[Array, ""]  # steps taken


class PointMass(Environment):
    """A ball in a maze of cells of 1 m, moved by a force along each axis. Its reward is 0: `point_maze` adds goals.

    With force F = `force` times the action, mass m, damping D and time step h, the velocity is clipped to plus or minus
    `speed_limit` and then

        v <- (m v + h F) / (m + h D)      x <- x + h v

    which is MuJoCo's implicitly damped Euler step: away from walls this is Gymnasium-Robotics' PointMaze, number for
    number. At a wall the ball stops at once in its direction and slides on without friction. MuJoCo's contacts are
    soft: there a ball at full speed sinks in by a centimetre or so and springs back with up to a fifth of its speed;
    and its ball is round at corners, while this one is square.

    - Observation: `float32[4]`, x and y in m from the middle of the maze, and their velocities in m/s.
    - Action: `float32[2]` in [-1, 1], the force along x and y.
    - Reward: 0. Never terminated.
    - Truncated: after `max_steps` steps.

    The maze is traced, so mazes of one size are one `vmap`: `starts` and `goals` are the cells for starts and for
    goals, each drawn at up to `noise` from the cell's middle along both axes.

    Source: Fu, Kumar, Nachum, Tucker and Levine (2020), "D4RL: Datasets for Deep Data-Driven Reinforcement Learning"
    (arXiv 2004.07219), in the version of Gymnasium-Robotics' `PointMaze-v3`.
    """

    draws_goals: ClassVar[bool] = True
    frames_per_second: ClassVar[float] = 100.0

    walls: Bool[Array, "row column"] = equinox.field(converter=_flags)
    starts: Bool[Array, "row column"] = equinox.field(converter=_flags)
    goals: Bool[Array, "row column"] = equinox.field(converter=_flags)
    ranges: ClassVar[Ranges] = {
        "max_steps": Range(1),
        "force": Range(0),
        "mass": Range(0, above=True),
        "damping": Range(0),
        "speed_limit": Range(0, above=True),
        "time_step": Range(0, above=True),
        "radius": Range(0),
        "noise": Range(0),
        "reach": Range(1),
    }

    max_steps: int = 300
    force: float = 100.0  # N
    mass: float = 4 / 3 * np.pi * 0.1**3 * 1000.0  # kg, of a ball of 0.1 m and 1000 kg/m³
    damping: float = 1.0  # N s/m
    speed_limit: float = 5.0  # m/s along each axis, before the force acts
    time_step: float = 0.01  # s
    radius: float = 0.1  # m
    noise: float = 0.25  # m
    reach: int = equinox.field(default=1, static=True)  # cells around the ball's own that are looked at for walls

    def __check_init__(self):
        check_at_least(self, max_steps=1, force=0, damping=0, speed_limit=0, time_step=0, radius=0, noise=0)
        if isinstance(self.mass, float) and self.mass <= 0:
            raise ForageError(f"PointMass cannot have mass {self.mass}; any above 0 works.")
        if isinstance(self.radius, float) and isinstance(self.noise, float) and self.radius + self.noise >= 0.5:
            raise ForageError(
                f"A ball of radius {self.radius} that begins up to {self.noise} off the middle of a cell of 1 "
                f"reaches into the next one; radius + noise below 0.5 works."
            )
        check_at_least(self, reach=1)
        numbers = (self.force, self.mass, self.speed_limit, self.time_step, self.radius)
        if all(isinstance(number, int | float) for number in numbers):
            furthest = self.time_step * (self.speed_limit + self.time_step * self.force / self.mass) + self.radius
            if furthest > self.reach:
                raise ForageError(
                    f"A ball of radius {self.radius} gets {furthest:.3g} cells far in a step; "
                    f"reach {int(np.ceil(furthest))} sees the walls there."
                )
        maze = (self.walls, self.starts, self.goals)
        if not any(isinstance(array, Tracer) for array in maze):
            layouts.check_maze(*(np.asarray(array) for array in maze))

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        half = self.goal_space.high
        high = np.concatenate([half, np.full(2, np.inf, np.float32)])
        return gymnasium.spaces.Box(-high, high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    @property
    def horizon(self) -> int:
        return self.max_steps

    @property
    def goal_space(self) -> gymnasium.spaces.Box:
        rows, columns = self.walls.shape
        half = np.array([columns / 2, rows / 2], np.float32)
        return gymnasium.spaces.Box(-half, half, dtype=np.float32)

    def reset(self, key: Key[Array, ""]) -> tuple[PointMassState, Float[Array, "4"]]:
        cell_key, noise_key = jax.random.split(key)
        cell = jax.random.categorical(cell_key, jnp.log(self.starts.reshape(-1).astype(jnp.float32)))
        position = self.centres()[cell] + self._noise(noise_key)
        state = PointMassState(position, jnp.zeros(2), jnp.zeros((), jnp.int32))
        return state, self._observe(state)

    def step(
        self, state: PointMassState, action: Float[Array, "2"], key: Key[Array, ""]
    ) -> tuple[PointMassState, Step]:
        velocity = jnp.clip(state.velocity, -self.speed_limit, self.speed_limit)
        push = self.time_step * self.force * jnp.clip(action, -1.0, 1.0)
        velocity = (self.mass * velocity + push) / (self.mass + self.time_step * self.damping)
        # A number that was set later may be too large for `reach`; the ball is then held back, and enters no wall.
        furthest = (self.reach - self.radius) / self.time_step
        velocity = jnp.clip(velocity, -furthest, furthest)
        walls, middle = self._nearby_walls(state.position)
        position, velocity = slide(state.position - middle, velocity, self.time_step, walls, self.radius)
        position = position + middle
        new_state = PointMassState(position, velocity, state.time + 1)
        truncated = new_state.time >= self.max_steps
        nothing = jnp.zeros((), jnp.float32)
        return new_state, Step(self._observe(new_state), nothing, jnp.zeros((), bool), truncated, {})

    @property
    def map_shape(self) -> tuple[int, int]:
        rows, columns = self.walls.shape
        return rows, columns

    def reachable(self) -> np.ndarray:
        return ~np.asarray(self.walls)

    def map_position(self, state: PointMassState) -> Int[Array, ""]:
        """Return the cell that the ball's middle is in."""
        rows, columns = self.walls.shape
        column = jnp.clip(jnp.floor(state.position[0] + columns / 2), 0, columns - 1)
        row = jnp.clip(jnp.floor(rows / 2 - state.position[1]), 0, rows - 1)
        return (row * columns + column).astype(jnp.int32)

    def achieved_goal(self, state: PointMassState) -> Float[Array, "xy=2"]:
        """Return the ball's position."""
        return state.position

    def draw_goal(self, state: PointMassState, key: Key[Array, ""]) -> Float[Array, "xy=2"]:
        """Draw a place in a goal cell other than the ball's own, and more than half a cell away if there is one."""
        cell_key, noise_key = jax.random.split(key)
        places = self.centres() + self._noise(noise_key)
        own = (jnp.abs(self.centres() - state.position) <= 0.5).all(-1)
        allowed = self.goals.reshape(-1) & ~own
        far = allowed & (jnp.linalg.norm(places - state.position, axis=-1) > 0.5)
        # Where the ball stands on the only goal there is, that stays the goal.
        allowed = jnp.where(far.any(), far, jnp.where(allowed.any(), allowed, self.goals.reshape(-1)))
        return places[jax.random.categorical(cell_key, jnp.log(allowed.astype(jnp.float32)))]

    def _nearby_walls(self, position: Float[Array, "xy=2"]) -> tuple[Bool[Array, "row column"], Float[Array, "xy=2"]]:
        """Return the walls within `reach` of the ball's cell, and the middle of that cell."""
        rows, columns = self.walls.shape
        column = jnp.floor(position[0] + columns / 2)
        row = jnp.floor(rows / 2 - position[1])
        padded = jnp.pad(self.walls, self.reach, constant_values=True)
        size = 2 * self.reach + 1
        walls = jax.lax.dynamic_slice(padded, (row.astype(jnp.int32), column.astype(jnp.int32)), (size, size))
        return walls, jnp.stack([column + 0.5 - columns / 2, rows / 2 - row - 0.5])

    def centres(self) -> Float[Array, "cell xy=2"]:
        """Return the middles of all cells, row by row."""
        rows, columns = self.walls.shape
        y, x = jnp.meshgrid(rows / 2 - jnp.arange(rows) - 0.5, jnp.arange(columns) + 0.5 - columns / 2, indexing="ij")
        return jnp.stack([x, y], axis=-1).reshape(-1, 2)

    def _noise(self, key: Key[Array, ""]) -> Float[Array, "xy=2"]:
        return jax.random.uniform(key, (2,), minval=-self.noise, maxval=self.noise)

    def _observe(self, state: PointMassState) -> Float[Array, "4"]:
        return jnp.concatenate([state.position, state.velocity])

    def render(
        self, state: PointMassState, goal: Any = None, reach: float = 0.0
    ) -> UInt8[np.ndarray, "height width 3"]:
        walls = np.asarray(self.walls)
        rows, columns = walls.shape
        cell = max(14, min(64, 400 // columns, 400 // rows))
        half = (columns / 2, rows / 2)
        canvas = drawing.Canvas(columns * cell, rows * cell, (-half[0], -half[1], half[0], half[1]), drawing.PAPER)
        for row, column in np.argwhere(walls):
            x, y = column - half[0], half[1] - row
            canvas.rectangle((x, y), (x + 1, y - 1), drawing.mix(drawing.INK, drawing.STONE, 0.35))
        if goal is not None:
            x, y = (float(value) for value in goal)
            canvas.circle((x, y), reach, drawing.mix(drawing.GOLD, drawing.PAPER, 0.65))
            canvas.circle((x, y), 0.12, drawing.GOLD)
        x, y = (float(value) for value in state.position)
        ahead = np.asarray(state.velocity) * 0.1
        canvas.line([(x, y), (x + float(ahead[0]), y + float(ahead[1]))], drawing.INK, 2)
        canvas.circle((x, y), max(float(self.radius), 4 / cell), drawing.ORANGE)
        return canvas.array()


def point_mass(layout: str | tuple[str, ...] = "UMaze", **fields: Any) -> PointMass:
    """Return a `PointMass` in a maze of `layouts.LAYOUTS`, by name, or drawn in letters."""
    if isinstance(layout, str):
        named = {name.lower(): rows for name, rows in layouts.LAYOUTS.items()}
        if layout.lower() not in named:
            raise ForageError(f"There is no maze {layout!r}; there are {', '.join(layouts.LAYOUTS)}.")
        layout = named[layout.lower()]
    return PointMass(*layouts.parse_maze(layout), **fields)


def point_maze(
    layout: str | tuple[str, ...] = "UMaze",
    reward: str = "sparse",
    on_success: str = "stay",
    flat: bool = True,
    max_steps: int = 300,
    radius: float = 0.45,
) -> GoalConditioned:
    """Return a point mass that is to reach a goal in a maze: Gymnasium-Robotics' PointMaze.

    `radius` is how near is near enough. See `GoalConditioned` for the rewards, for what happens at the goal
    (`stay`, `renew` or `end`) and for the observation with its goal, `flat` or a dictionary.
    """
    return GoalConditioned(point_mass(layout, max_steps=max_steps), radius, reward, on_success, flat)
