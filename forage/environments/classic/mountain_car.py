"""Mountain car: too weak to drive up the hill, a car must first swing away from the goal."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import Step
from forage.environments import drawing

BINS = 20
"""Bins of position and of velocity on a map."""


class MountainCarState(NamedTuple):
    variables: Float[Array, "variables=2"]  # position, velocity (a step)
    time: Int[Array, ""]  # steps taken


class MountainCar(Environment):
    """A car in a valley, with three actions; step for step Gymnasium's `MountainCar-v0`.

    ::

        v <- clip(v + force (action - 1) - gravity cos 3x, ±max_speed)
        x <- clip(x + v, min_position, max_position),  v <- 0 at the left wall

    - Observation: `float32[2]`, position and velocity.
    - Action: 0, 1, 2 push left, not at all, right.
    - Reward: -1 each step; with `sparse` 1 at the goal and nothing before.
    - Terminated: at or beyond `goal_position`, no slower than `goal_velocity`.
    - Truncated: after `max_steps` steps.

    Source: Moore (1990), "Efficient memory-based learning for robot control"; Sutton and Barto (2018), example 10.1.
    """

    frames_per_second: ClassVar[float] = 30.0
    ranges: ClassVar[Ranges] = {
        "gravity": Range(0),
        "force": Range(0),
        "min_position": Range(),
        "max_position": Range(),
        "max_speed": Range(0, above=True),
        "goal_position": Range(),
        "goal_velocity": Range(),
        "reset_low": Range(),
        "reset_high": Range(),
        "max_steps": Range(1),
    }

    gravity: float = 0.0025
    force: float = 0.001
    min_position: float = -1.2
    max_position: float = 0.6
    max_speed: float = 0.07
    goal_position: float = 0.5
    goal_velocity: float = 0.0
    reset_low: float = -0.6  # the car starts at rest, uniformly between these positions
    reset_high: float = -0.4
    max_steps: int = 200
    sparse: bool = equinox.field(static=True, default=False)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return _observation_space(self)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(3)

    @property
    def reward_range(self) -> tuple[float, float]:
        return (0.0, 1.0) if self.sparse else (-1.0, -1.0)

    @property
    def return_range(self) -> tuple[float, float] | None:
        return (0.0, 1.0) if self.sparse else super().return_range

    @property
    def horizon(self) -> int:
        return self.max_steps

    def reset(self, key: Key[Array, ""]) -> tuple[MountainCarState, Float[Array, "variables=2"]]:
        return _reset(self, key)

    def step(
        self, state: MountainCarState, action: Int[Array, ""], key: Key[Array, ""]
    ) -> tuple[MountainCarState, Step]:
        push = self.force * (jnp.asarray(action, jnp.float32) - 1)
        new_state, terminated, truncated = _drive(self, state, push)
        reward = terminated.astype(jnp.float32) if self.sparse else -jnp.ones((), jnp.float32)
        return new_state, Step(new_state.variables, reward, terminated, truncated, {})

    @property
    def map_shape(self) -> tuple[int, int]:
        return BINS, BINS

    def map_position(self, state: MountainCarState) -> Int[Array, ""]:
        """Return the bin of its position, from left to right, then that of its velocity."""
        return _bin(self, state)

    def render(self, state: MountainCarState) -> UInt8[np.ndarray, "300 400 3"]:
        return _draw(self, state)


class MountainCarContinuous(Environment):
    """The car in the valley with a continuous push; step for step Gymnasium's `MountainCarContinuous-v0`.

    The same motion as `MountainCar`, with the push `force * clip(action, -1, 1)`.

    - Observation: `float32[2]`, position and velocity.
    - Action: `float32[1]` in [-1, 1].
    - Reward: `-effort_cost * action²` each step (of the action before clipping), plus `goal_reward` at the goal.
    - Terminated: at or beyond `goal_position`, no slower than `goal_velocity`.
    - Truncated: after `max_steps` steps.

    Source: Moore (1990), "Efficient memory-based learning for robot control".
    """

    frames_per_second: ClassVar[float] = 30.0
    ranges: ClassVar[Ranges] = {
        "gravity": Range(0),
        "force": Range(0),
        "min_position": Range(),
        "max_position": Range(),
        "max_speed": Range(0, above=True),
        "goal_position": Range(),
        "goal_velocity": Range(),
        "goal_reward": Range(),
        "effort_cost": Range(0),
        "reset_low": Range(),
        "reset_high": Range(),
        "max_steps": Range(1),
    }

    gravity: float = 0.0025
    force: float = 0.0015
    min_position: float = -1.2
    max_position: float = 0.6
    max_speed: float = 0.07
    goal_position: float = 0.45
    goal_velocity: float = 0.0
    goal_reward: float = 100.0
    effort_cost: float = 0.1
    reset_low: float = -0.6  # the car starts at rest, uniformly between these positions
    reset_high: float = -0.4
    max_steps: int = 999

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return _observation_space(self)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    @property
    def horizon(self) -> int:
        return self.max_steps

    def reset(self, key: Key[Array, ""]) -> tuple[MountainCarState, Float[Array, "variables=2"]]:
        return _reset(self, key)

    def step(
        self, state: MountainCarState, action: Float[Array, "action=1"], key: Key[Array, ""]
    ) -> tuple[MountainCarState, Step]:
        effort = action[0]
        new_state, terminated, truncated = _drive(self, state, self.force * jnp.clip(effort, -1.0, 1.0))
        reward = jnp.where(terminated, self.goal_reward, 0.0) - self.effort_cost * effort * effort
        return new_state, Step(new_state.variables, reward, terminated, truncated, {})

    @property
    def map_shape(self) -> tuple[int, int]:
        return BINS, BINS

    def map_position(self, state: MountainCarState) -> Int[Array, ""]:
        """Return the bin of its position, from left to right, then that of its velocity."""
        return _bin(self, state)

    def render(self, state: MountainCarState) -> UInt8[np.ndarray, "300 400 3"]:
        return _draw(self, state)


def _observation_space(car: MountainCar | MountainCarContinuous) -> gymnasium.spaces.Box:
    speed = float(car.max_speed)
    low = np.array([float(car.min_position), -speed], np.float32)
    high = np.array([float(car.max_position), speed], np.float32)
    return gymnasium.spaces.Box(low, high, dtype=np.float32)


def _reset(
    car: MountainCar | MountainCarContinuous, key: Key[Array, ""]
) -> tuple[MountainCarState, Float[Array, "variables=2"]]:
    position = jax.random.uniform(key, minval=car.reset_low, maxval=car.reset_high)
    variables = jnp.stack([position, jnp.zeros_like(position)])
    return MountainCarState(variables, jnp.zeros((), jnp.int32)), variables


def _drive(
    car: MountainCar | MountainCarContinuous, state: MountainCarState, push: Float[Array, ""]
) -> tuple[MountainCarState, Array, Array]:
    """Take one step of the motion: the new state, `terminated` and `truncated`."""
    position, velocity = state.variables
    velocity = jnp.clip(velocity + push - car.gravity * jnp.cos(3 * position), -car.max_speed, car.max_speed)
    position = jnp.clip(position + velocity, car.min_position, car.max_position)
    velocity = jnp.where((position <= car.min_position) & (velocity < 0), 0.0, velocity)

    time = state.time + 1
    terminated = (position >= car.goal_position) & (velocity >= car.goal_velocity)
    truncated = (time >= car.max_steps) & ~terminated
    return MountainCarState(jnp.stack([position, velocity]), time), terminated, truncated


def _bin(car: MountainCar | MountainCarContinuous, state: MountainCarState) -> Int[Array, ""]:
    """Return one of `BINS` x `BINS` bins of position and velocity."""
    low = jnp.stack([jnp.asarray(car.min_position, jnp.float32), -jnp.asarray(car.max_speed, jnp.float32)])
    high = jnp.stack([jnp.asarray(car.max_position, jnp.float32), jnp.asarray(car.max_speed, jnp.float32)])
    share = (state.variables - low) / (high - low)
    row, column = jnp.clip(jnp.floor(BINS * share).astype(jnp.int32), 0, BINS - 1)
    return row * BINS + column


def _height(position: float) -> float:
    """Return the height of the road, used by the picture only."""
    return 0.45 * math.sin(3 * position)


def _draw(car: MountainCar | MountainCarContinuous, state: MountainCarState) -> UInt8[np.ndarray, "300 400 3"]:
    position = float(np.asarray(state.variables)[0])
    low, high, goal = float(car.min_position), float(car.max_position), float(car.goal_position)
    margin = 0.05 * (high - low)
    left, right = low - margin, high + margin
    rise = 0.75 * (right - left)
    canvas = drawing.Canvas(400, 300, (left, -0.65, right, -0.65 + rise), drawing.SKY)

    road = [(x, _height(x)) for x in np.linspace(left, right, 160).tolist()]
    canvas.polygon([*road, (right, -2.0), (left, -2.0)], drawing.mix(drawing.GREEN, drawing.PAPER, 0.25))
    canvas.line(road, drawing.INK, 3)

    foot = _height(goal)
    canvas.line([(goal, foot), (goal, foot + 0.3)], drawing.INK, 3)
    canvas.polygon([(goal, foot + 0.31), (goal, foot + 0.19), (goal + 0.14, foot + 0.25)], drawing.RED)
    canvas.line([(low, _height(low)), (low, _height(low) + 0.2)], drawing.STONE, 5)

    slope = math.atan(1.35 * math.cos(3 * position))
    cosine, sine = math.cos(slope), math.sin(slope)

    def on_car(along: float, above: float) -> tuple[float, float]:
        return position + along * cosine - above * sine, _height(position) + along * sine + above * cosine

    canvas.polygon(
        [on_car(*corner) for corner in ((-0.055, 0.1), (-0.035, 0.15), (0.035, 0.15), (0.06, 0.1))], drawing.INK
    )
    body = ((-0.105, 0.04), (-0.105, 0.1), (0.085, 0.1), (0.11, 0.075), (0.11, 0.04))
    canvas.polygon([on_car(*corner) for corner in body], drawing.ORANGE)
    for wheel in (-0.06, 0.06):
        canvas.circle(on_car(wheel, 0.038), 0.036, drawing.INK)
        canvas.circle(on_car(wheel, 0.038), 0.015, drawing.MIST)
    return canvas.array()
