"""CartPole swing-up: the pole hangs down, pushing costs, and reward requires an upright pole near the middle."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import Step
from forage.environments.classic.cartpole import CartPole, CartPoleState


class CartPoleSwingUp(Environment):
    """A cart that must swing its pole up to earn reward, with a cost for pushes; step for step bsuite's
    `cartpole_swingup`.

    The motion is `CartPole`'s, with steps of `tau` and three actions. Standing still costs nothing, so an agent that
    explores one step at a time stays where it is.

    - Observation: `float32[8]`: position and velocity over `position_threshold`, sin θ, cos θ, θ', the elapsed share
      of time, and two signs (1 or -1): is the cart near enough to the middle, and is the pole slow enough.
    - Action: 0 pushes left, 1 not at all, 2 right.
    - Reward: 1 if cos θ > `height`, |θ'| < `slow` and |x| < `middle`, else 0; minus `move_cost` for a push.
    - Terminated: the cart is beyond `position_threshold`.
    - Truncated: after `max_steps` steps. (The original terminates, and one step later: it ends once the time exceeds
      10 s, and a thousand times 0.01, added up in float64, stay below.)

    Defaults are bsuite's; its hardest of 20 settings is `height=0.95, middle=0.05`.

    Source: Osband, Doron, Hessel, Aslanides, Sezener, Saraiva, McKinney, Lattimore, Szepesvari, Singh, Van Roy, Sutton,
    Silver, van Hasselt (2019), "Behaviour Suite for Reinforcement Learning", arXiv 1908.03568.
    """

    frames_per_second: ClassVar[float] = 100.0
    ranges: ClassVar[Ranges] = {
        "height": Range(-1, 1),
        "slow": Range(0, above=True),
        "middle": Range(0, above=True),
        "move_cost": Range(0),
        "gravity": Range(0),
        "cart_mass": Range(0, above=True),
        "pole_mass": Range(0, above=True),
        "length": Range(0, above=True),
        "force": Range(0),
        "tau": Range(0, above=True),
        "position_threshold": Range(0, above=True),
        "reset_range": Range(0),
        "max_steps": Range(1),
    }

    height: float = 0.5
    slow: float = 1.0  # rad/s
    middle: float = 1.0  # m
    move_cost: float = 0.1
    gravity: float = 9.8  # m/s²
    cart_mass: float = 1.0  # kg
    pole_mass: float = 0.1  # kg
    length: float = 0.5  # m, half of the pole
    force: float = 10.0  # N
    tau: float = 0.01  # s, between two steps
    position_threshold: float = 3.0  # m
    reset_range: float = 0.05  # every state variable starts uniformly in plus or minus this, about hanging down
    max_steps: int = 1000

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        high = np.array([2, np.inf, 1, 1, np.inf, 1, 1, 1], np.float32)
        return gymnasium.spaces.Box(-high, high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(3)

    @property
    def horizon(self) -> int:
        return self.max_steps

    def reset(self, key: Key[Array, ""]) -> tuple[CartPoleState, Float[Array, "observation=8"]]:
        variables = jax.random.uniform(key, (4,), minval=-self.reset_range, maxval=self.reset_range)
        state = CartPoleState(variables.at[2].add(jnp.pi), jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, state: CartPoleState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[CartPoleState, Step]:
        position, velocity, angle, angular_velocity = state.variables
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        total_mass = self.cart_mass + self.pole_mass
        pole_moment = self.pole_mass * self.length
        direction = jnp.asarray(action, jnp.float32) - 1

        push = (self.force * direction + pole_moment * angular_velocity * angular_velocity * sine) / total_mass
        angular_acceleration = (self.gravity * sine - cosine * push) / (
            self.length * (4 / 3 - self.pole_mass * cosine * cosine / total_mass)
        )
        acceleration = push - pole_moment * angular_acceleration * cosine / total_mass

        position = position + self.tau * velocity
        velocity = velocity + self.tau * acceleration
        angle = jnp.mod(angle + self.tau * angular_velocity, 2 * jnp.pi)
        angular_velocity = angular_velocity + self.tau * angular_acceleration

        new_state = CartPoleState(jnp.stack([position, velocity, angle, angular_velocity]), state.time + 1)
        upright = (jnp.cos(angle) > self.height) & (jnp.abs(angular_velocity) < self.slow)
        upright &= jnp.abs(position) < self.middle
        reward = jnp.where(upright, 1.0, 0.0) - self.move_cost * jnp.abs(direction)
        terminated = jnp.abs(position) > self.position_threshold
        truncated = (new_state.time >= self.max_steps) & ~terminated
        return new_state, Step(self.observe(new_state), reward, terminated, truncated, {})

    def observe(self, state: CartPoleState) -> Float[Array, "observation=8"]:
        position, velocity, angle, angular_velocity = state.variables
        near = jnp.where(jnp.abs(position) < self.middle, 1.0, -1.0)
        slow = jnp.where(jnp.abs(angular_velocity) < self.slow, 1.0, -1.0)
        place = jnp.stack([position, velocity]) / self.position_threshold
        gone = state.time / self.max_steps
        return jnp.stack([*place, jnp.sin(angle), jnp.cos(angle), angular_velocity, gone, near, slow])

    def render(self, state: CartPoleState) -> UInt8[np.ndarray, "300 400 3"]:
        return CartPole(length=self.length, position_threshold=self.position_threshold).render(state)
