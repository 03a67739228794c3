"""Acrobot: swing a two-link pendulum up by the torque of its middle joint alone."""

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


class AcrobotState(NamedTuple):
    variables: Float[
        Array, "variables=4"
    ]  # angle of link 1 (0 hangs down), angle of link 2 to link 1 (rad), their rates (rad/s)
    time: Int[Array, ""]  # steps taken


class Acrobot(Environment):
    """Two links hanging from a fixed joint, driven at the joint between them; step for step Gymnasium's `Acrobot-v1`.

    The equations of motion are those of the book, integrated by one classical Runge-Kutta step of `tau` seconds.

    - Observation: `float32[6]`, cos θ1, sin θ1, cos θ2, sin θ2, θ1', θ2'.
    - Action: 0, 1, 2 apply `-torque`, nothing, `+torque`.
    - Reward: -1 each step, 0 when the goal is reached.
    - Terminated: the tip is more than `target_height` above the fixed joint.
    - Truncated: after `max_steps` steps.

    Source: Sutton (1996), "Generalization in reinforcement learning: successful examples using sparse coarse coding";
    Sutton and Barto (1998), "Reinforcement Learning: An Introduction", section 11.3.
    """

    frames_per_second: ClassVar[float] = 15.0
    ranges: ClassVar[Ranges] = {
        "gravity": Range(0),
        "link_length_1": Range(0, above=True),
        "link_length_2": Range(0, above=True),
        "link_mass_1": Range(0, above=True),
        "link_mass_2": Range(0, above=True),
        "link_centre_1": Range(0, above=True),
        "link_centre_2": Range(0, above=True),
        "link_inertia": Range(0, above=True),
        "torque": Range(0),
        "tau": Range(0, above=True),
        "max_velocity_1": Range(0, above=True),
        "max_velocity_2": Range(0, above=True),
        "target_height": Range(),
        "reset_range": Range(0),
        "max_steps": Range(1),
    }

    gravity: float = 9.8  # m/s²
    link_length_1: float = 1.0  # m
    link_length_2: float = 1.0  # m, matters for the height of the tip only
    link_mass_1: float = 1.0  # kg
    link_mass_2: float = 1.0  # kg
    link_centre_1: float = 0.5  # m, from the joint to the centre of mass
    link_centre_2: float = 0.5  # m
    link_inertia: float = 1.0  # kg m², of each link
    torque: float = 1.0  # N m
    tau: float = 0.2  # s, between two steps
    max_velocity_1: float = 4 * math.pi  # rad/s
    max_velocity_2: float = 9 * math.pi  # rad/s
    target_height: float = 1.0  # m
    reset_range: float = 0.1  # every state variable starts uniformly in plus or minus this
    max_steps: int = 500

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        high = np.array([1, 1, 1, 1, float(self.max_velocity_1), float(self.max_velocity_2)], np.float32)
        return gymnasium.spaces.Box(-high, high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(3)

    @property
    def reward_range(self) -> tuple[float, float]:
        return -1.0, 0.0

    @property
    def horizon(self) -> int:
        return self.max_steps

    def reset(self, key: Key[Array, ""]) -> tuple[AcrobotState, Float[Array, "observation=6"]]:
        variables = jax.random.uniform(key, (4,), minval=-self.reset_range, maxval=self.reset_range)
        return AcrobotState(variables, jnp.zeros((), jnp.int32)), _observe(variables)

    def step(self, state: AcrobotState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[AcrobotState, Step]:
        torque = self.torque * (jnp.asarray(action, jnp.float32) - 1)

        y = state.variables
        k1 = self._derivative(y, torque)
        k2 = self._derivative(y + 0.5 * self.tau * k1, torque)
        k3 = self._derivative(y + 0.5 * self.tau * k2, torque)
        k4 = self._derivative(y + self.tau * k3, torque)
        angle_1, angle_2, velocity_1, velocity_2 = y + self.tau / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        angle_1, angle_2 = _wrap(angle_1), _wrap(angle_2)
        velocity_1 = jnp.clip(velocity_1, -self.max_velocity_1, self.max_velocity_1)
        velocity_2 = jnp.clip(velocity_2, -self.max_velocity_2, self.max_velocity_2)
        variables = jnp.stack([angle_1, angle_2, velocity_1, velocity_2])

        observation = _observe(variables)
        time = state.time + 1
        height = -self.link_length_1 * observation[0] - self.link_length_2 * jnp.cos(angle_1 + angle_2)
        terminated = height > self.target_height
        truncated = (time >= self.max_steps) & ~terminated
        reward = jnp.where(terminated, 0.0, -jnp.ones((), jnp.float32))
        return AcrobotState(variables, time), Step(observation, reward, terminated, truncated, {})

    def _derivative(
        self, variables: Float[Array, "variables=4"], torque: Float[Array, ""]
    ) -> Float[Array, "variables=4"]:
        """Time derivative of the state variables."""
        angle_1, angle_2, velocity_1, velocity_2 = variables
        m2, l1, c2, inertia = self.link_mass_2, self.link_length_1, self.link_centre_2, self.link_inertia
        sine_2, cosine_2 = jnp.sin(angle_2), jnp.cos(angle_2)
        coupling = m2 * l1 * c2

        d2 = m2 * c2 * c2 + inertia + coupling * cosine_2
        d1 = self.link_mass_1 * self.link_centre_1**2 + m2 * l1 * l1 + inertia + d2 + coupling * cosine_2
        phi_2 = m2 * c2 * self.gravity * jnp.sin(angle_1 + angle_2)
        phi_1 = (
            -coupling * sine_2 * velocity_2 * (velocity_2 + 2 * velocity_1)
            + (self.link_mass_1 * self.link_centre_1 + m2 * l1) * self.gravity * jnp.sin(angle_1)
            + phi_2
        )
        ratio = d2 / d1
        acceleration_2 = (torque + ratio * phi_1 - coupling * velocity_1 * velocity_1 * sine_2 - phi_2) / (
            m2 * c2 * c2 + inertia - d2 * ratio
        )
        acceleration_1 = -(d2 * acceleration_2 + phi_1) / d1
        return jnp.stack([velocity_1, velocity_2, acceleration_1, acceleration_2])

    def render(self, state: AcrobotState) -> UInt8[np.ndarray, "360 360 3"]:
        angle_1, angle_2, _, _ = (float(value) for value in np.asarray(state.variables))
        length_1, length_2 = float(self.link_length_1), float(self.link_length_2)
        reach = length_1 + length_2
        half = 1.15 * reach
        canvas = drawing.Canvas(360, 360, (-half, -half, half, half))

        canvas.ring((0, 0), reach, drawing.MIST, 2)
        height = float(self.target_height)
        canvas.line([(-half, height), (half, height)], drawing.RED, 2)

        middle = (length_1 * math.sin(angle_1), -length_1 * math.cos(angle_1))
        tip = (
            middle[0] + length_2 * math.sin(angle_1 + angle_2),
            middle[1] - length_2 * math.cos(angle_1 + angle_2),
        )
        canvas.line([(0, 0), middle], drawing.BLUE, 12)
        canvas.line([middle, tip], drawing.TEAL, 12)
        canvas.circle((0, 0), 0.045 * reach, drawing.INK)
        canvas.circle(middle, 0.04 * reach, drawing.GOLD)
        canvas.circle(tip, 0.025 * reach, drawing.PAPER)
        return canvas.array()


def _observe(variables: Float[Array, "variables=4"]) -> Float[Array, "observation=6"]:
    angle_1, angle_2, velocity_1, velocity_2 = variables
    return jnp.stack([jnp.cos(angle_1), jnp.sin(angle_1), jnp.cos(angle_2), jnp.sin(angle_2), velocity_1, velocity_2])


def _wrap(angle: Float[Array, ""]) -> Float[Array, ""]:
    """Wrap an angle into [-π, π]; an angle already inside stays bit for bit the same."""
    return angle - 2 * jnp.pi * jnp.round(angle / (2 * jnp.pi))
