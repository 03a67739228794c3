"""Pendulum: swing a rod up and hold it there, with bounded torque."""

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


class PendulumState(NamedTuple):
    variables: Float[Array, "variables=2"]  # angle (rad, 0 upright, not wrapped), angular velocity (rad/s)
    time: Int[Array, ""]  # steps taken


class Pendulum(Environment):
    """A uniform rod on a driven hinge; step for step Gymnasium's `Pendulum-v1`.

    With torque u clipped to plus or minus `max_torque`::

        θ' <- clip(θ' + (3 g / (2 l) sin θ + 3 u / (m l²)) tau, ±max_speed)
        θ  <- θ + θ' tau

    - Observation: `float32[3]`, cos θ, sin θ, θ'.
    - Action: `float32[1]`, the torque in N m.
    - Reward: `-(θ² + 0.1 θ'² + 0.001 u²)` of the state before the step, θ brought into [-π, π]; with
      `sparse` 1 where the step leads to within `upright` of upright, else 0, as the DeepMind Control Suite has it.
    - Never terminated. Truncated: after `max_steps` steps.

    Source: Gymnasium (Towers et al., 2024, arXiv 2407.17032), after the swing-up of Doya (2000),
    "Reinforcement learning in continuous time and space".
    """

    frames_per_second: ClassVar[float] = 30.0
    ranges: ClassVar[Ranges] = {
        "gravity": Range(0),
        "mass": Range(0, above=True),
        "length": Range(0, above=True),
        "max_speed": Range(0, above=True),
        "max_torque": Range(0, above=True),
        "tau": Range(0, above=True),
        "speed_cost": Range(0),
        "torque_cost": Range(0),
        "reset_angle": Range(0),
        "reset_velocity": Range(0),
        "max_steps": Range(1),
        "upright": Range(0, above=True),
    }

    gravity: float = 10.0  # m/s²
    mass: float = 1.0  # kg
    length: float = 1.0  # m
    max_speed: float = 8.0  # rad/s
    max_torque: float = 2.0  # N m
    tau: float = 0.05  # s, between two steps
    speed_cost: float = 0.1
    torque_cost: float = 0.001
    reset_angle: float = math.pi  # starts uniformly in plus or minus this
    reset_velocity: float = 1.0  # rad/s, likewise
    max_steps: int = 200
    upright: float = 8 * math.pi / 180  # rad
    sparse: bool = equinox.field(static=True, default=False)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        high = np.array([1.0, 1.0, float(self.max_speed)], np.float32)
        return gymnasium.spaces.Box(-high, high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-float(self.max_torque), float(self.max_torque), (1,), np.float32)

    @property
    def reward_range(self) -> tuple[float, float]:
        if self.sparse:
            return 0.0, 1.0
        return -(math.pi**2 + 0.1 * float(self.max_speed) ** 2 + 0.001 * float(self.max_torque) ** 2), 0.0

    @property
    def horizon(self) -> int:
        return self.max_steps

    def reset(self, key: Key[Array, ""]) -> tuple[PendulumState, Float[Array, "observation=3"]]:
        high = jnp.stack([jnp.asarray(self.reset_angle), jnp.asarray(self.reset_velocity)]).astype(jnp.float32)
        variables = jax.random.uniform(key, (2,), minval=-high, maxval=high)
        return PendulumState(variables, jnp.zeros((), jnp.int32)), _observe(variables)

    def step(
        self, state: PendulumState, action: Float[Array, "action=1"], key: Key[Array, ""]
    ) -> tuple[PendulumState, Step]:
        angle, velocity = state.variables
        torque = jnp.clip(action[0], -self.max_torque, self.max_torque)
        # Rounding to the nearest turn rather than a remainder: an angle inside [-π, π] is kept exactly.
        error = angle - 2 * jnp.pi * jnp.round(angle / (2 * jnp.pi))
        reward = -(error * error + self.speed_cost * velocity * velocity + self.torque_cost * torque * torque)

        acceleration = 1.5 * self.gravity / self.length * jnp.sin(angle) + 3 * torque / (self.mass * self.length**2)
        velocity = jnp.clip(velocity + acceleration * self.tau, -self.max_speed, self.max_speed)
        angle = angle + velocity * self.tau
        variables = jnp.stack([angle, velocity])
        if self.sparse:
            reward = (jnp.cos(angle) > jnp.cos(self.upright)).astype(jnp.float32)

        time = state.time + 1
        terminated = jnp.zeros((), bool)
        truncated = time >= self.max_steps
        return PendulumState(variables, time), Step(_observe(variables), reward, terminated, truncated, {})

    def render(self, state: PendulumState) -> UInt8[np.ndarray, "300 300 3"]:
        angle, _ = (float(value) for value in np.asarray(state.variables))
        length = float(self.length)
        half = 1.35 * length
        canvas = drawing.Canvas(300, 300, (-half, -half, half, half))

        canvas.ring((0, 0), length, drawing.MIST, 2)
        # The goal: the tip inside this mark.
        canvas.ring((0, length), 0.13 * length, drawing.GREEN, 2)
        # Gymnasium counts the angle counter-clockwise.
        tip = (-length * math.sin(angle), length * math.cos(angle))
        canvas.line([(0, 0), tip], drawing.RED, 16)
        canvas.circle(tip, 0.035 * length, drawing.PAPER)
        canvas.circle((0, 0), 0.06 * length, drawing.INK)
        return canvas.array()


class PendulumCost(Pendulum):
    """The pendulum with a cost in addition to its reward: 1 for each step with a torque beyond `gentle`.

    - Reward: `(reward, cost)`.

    The rest is as in `Pendulum`. A gentle torque swings it up too, but in more swings, so return and cost are at odds.
    """

    reward_names: ClassVar[tuple[str, ...]] = ("reward", "cost")

    ranges: ClassVar[Ranges] = {"gentle": Range(0)}

    gentle: float = 1.0  # N m

    def step(
        self, state: PendulumState, action: Float[Array, "action=1"], key: Key[Array, ""]
    ) -> tuple[PendulumState, Step]:
        after, step = super().step(state, action, key)
        torque = jnp.clip(action[0], -self.max_torque, self.max_torque)
        cost = (jnp.abs(torque) > self.gentle).astype(jnp.float32)
        return after, step._replace(reward=jnp.stack([step.reward, cost]))


def _observe(variables: Float[Array, "variables=2"]) -> Float[Array, "observation=3"]:
    angle, velocity = variables
    return jnp.stack([jnp.cos(angle), jnp.sin(angle), velocity])
