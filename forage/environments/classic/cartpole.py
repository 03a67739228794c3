"""CartPole: keep a pole upright on a cart that is pushed left or right."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import Step
from forage.environments import drawing


class CartPoleState(NamedTuple):
    variables: Float[
        Array, "variables=4"
    ]  # cart position (m), velocity (m/s), pole angle (rad), angular velocity (rad/s)
    time: Int[Array, ""]  # steps taken


class CartPole(Environment):
    """A cart on a frictionless track with a pole hinged on top; step for step Gymnasium's `CartPole-v1`.

    With push F, angle θ (0 upright), total mass M, pole mass m and half length l::

        a = (F + m l θ'² sin θ) / M
        θ'' = (g sin θ - a cos θ) / (l (4/3 - m cos² θ / M))
        x'' = a - m l θ'' cos θ / M

    integrated by one explicit Euler step of `tau` seconds.

    - Observation: `float32[4]`, cart position, cart velocity, pole angle, angular velocity.
    - Action: 0 pushes left, 1 pushes right.
    - Reward: 1 each step, the last one included.
    - Terminated: the cart is beyond `position_threshold` or the pole beyond `angle_threshold`.
    - Truncated: after `max_steps` steps. `CartPole(max_steps=200)` is `CartPole-v0`.

    Source: Barto, Sutton and Anderson (1983), "Neuronlike adaptive elements that can solve difficult learning control
    problems", without the friction of the cart on its track and of the hinge.
    """

    frames_per_second: ClassVar[float] = 50.0
    ranges: ClassVar[Ranges] = {
        "gravity": Range(0),
        "cart_mass": Range(0, above=True),
        "pole_mass": Range(0, above=True),
        "length": Range(0, above=True),
        "force": Range(0),
        "tau": Range(0, above=True),
        "angle_threshold": Range(0, above=True),
        "position_threshold": Range(0, above=True),
        "reset_range": Range(0),
        "max_steps": Range(1),
    }

    gravity: float = 9.8  # m/s²
    cart_mass: float = 1.0  # kg
    pole_mass: float = 0.1  # kg
    length: float = 0.5  # m, half of the pole: from the hinge to its centre of mass
    force: float = 10.0  # N
    tau: float = 0.02  # s, between two steps
    angle_threshold: float = 12 * 2 * math.pi / 360  # rad
    position_threshold: float = 2.4  # m
    reset_range: float = 0.05  # every state variable starts uniformly in plus or minus this
    max_steps: int = 500

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        # Twice the thresholds, so that the state which ends the episode is inside.
        high = np.array(
            [2 * float(self.position_threshold), np.inf, 2 * float(self.angle_threshold), np.inf], np.float32
        )
        return gymnasium.spaces.Box(-high, high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(2)

    @property
    def reward_range(self) -> tuple[float, float]:
        return 1.0, 1.0

    @property
    def horizon(self) -> int:
        return self.max_steps

    def reset(self, key: Key[Array, ""]) -> tuple[CartPoleState, Float[Array, "variables=4"]]:
        variables = jax.random.uniform(key, (4,), minval=-self.reset_range, maxval=self.reset_range)
        return CartPoleState(variables, jnp.zeros((), jnp.int32)), variables

    def step(self, state: CartPoleState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[CartPoleState, Step]:
        position, velocity, angle, angular_velocity = state.variables
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        total_mass = self.cart_mass + self.pole_mass
        pole_moment = self.pole_mass * self.length
        force = jnp.where(action == 1, self.force, -self.force)

        push = (force + pole_moment * angular_velocity * angular_velocity * sine) / total_mass
        angular_acceleration = (self.gravity * sine - cosine * push) / (
            self.length * (4 / 3 - self.pole_mass * cosine * cosine / total_mass)
        )
        acceleration = push - pole_moment * angular_acceleration * cosine / total_mass

        position = position + self.tau * velocity
        velocity = velocity + self.tau * acceleration
        angle = angle + self.tau * angular_velocity
        angular_velocity = angular_velocity + self.tau * angular_acceleration

        variables = jnp.stack([position, velocity, angle, angular_velocity])
        time = state.time + 1
        terminated = (jnp.abs(position) > self.position_threshold) | (jnp.abs(angle) > self.angle_threshold)
        truncated = (time >= self.max_steps) & ~terminated
        reward = jnp.ones((), jnp.float32)
        return CartPoleState(variables, time), Step(variables, reward, terminated, truncated, {})

    def render(self, state: CartPoleState) -> UInt8[np.ndarray, "300 400 3"]:
        position, _, angle, _ = (float(value) for value in np.asarray(state.variables))
        limit, length = float(self.position_threshold), float(self.length)
        # The window fits the track; a longer pole or a shorter track only changes the scale.
        half = max(1.1 * limit, 2.0 * length)
        canvas = drawing.Canvas(400, 300, (-half, -0.55 * half, half, 0.95 * half))
        unit = half / 2.6

        canvas.rectangle((-half, -0.55 * half), (half, -0.2 * unit), drawing.MIST)
        canvas.line([(-half, -0.2 * unit), (half, -0.2 * unit)], drawing.STONE, 2)
        for edge in (-limit, limit):
            canvas.line([(edge, -0.42 * unit), (edge, 0.02 * unit)], drawing.RED, 3)

        cart = drawing.INK
        canvas.rectangle((position - 0.36 * unit, 0), (position + 0.36 * unit, 0.34 * unit), cart, rounding=4)
        for wheel in (-0.2, 0.2):
            canvas.circle((position + wheel * unit, -0.05 * unit), 0.15 * unit, drawing.PAPER)
            canvas.circle((position + wheel * unit, -0.05 * unit), 0.12 * unit, drawing.STONE)
        hinge = (position, 0.3 * unit)
        tip = (hinge[0] + 2 * length * math.sin(angle), hinge[1] + 2 * length * math.cos(angle))
        canvas.line([hinge, tip], drawing.ORANGE, 9)
        canvas.circle(hinge, 0.06 * unit, drawing.PAPER)
        return canvas.array()
