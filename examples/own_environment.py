"""An environment of your own: two pure functions and two spaces. Its fields are its physics."""

from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

import forage
from forage.core.ports import Environment
from forage.core.types import Step


class LanderState(NamedTuple):
    height: Float[Array, ""]
    speed: Float[Array, ""]
    time: Int[Array, ""]


class Lander(Environment):
    """Touch down softly: the reward is minus the speed at touchdown, and a little fuel."""

    gravity: float = 1.6
    thrust: float = 3.0
    max_steps: int = 100

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    @property
    def horizon(self):
        return self.max_steps

    def reset(self, key):
        state = LanderState(10.0 + jax.random.uniform(key), jnp.float32(0.0), jnp.int32(0))
        return state, self.observe(state)

    def step(self, state, action, key):
        speed = state.speed + 0.1 * (self.thrust * action - self.gravity)
        state = LanderState(state.height + 0.1 * speed, speed, state.time + 1)
        landed = state.height <= 0
        reward = jnp.where(landed, -jnp.abs(speed), 0.0) - 0.01 * action
        return state, Step(self.observe(state), reward, landed, (state.time >= self.max_steps) & ~landed, {})

    def observe(self, state):
        return jnp.stack([state.height / 10, state.speed / 5])


def main(steps: int = 300_000, seeds: int = 3, directory: str = "runs/lander") -> None:
    run = forage.train(forage.PPO(learning_rate=1e-3), Lander(), steps=steps, seeds=seeds, directory=directory)
    print(run.score)


if __name__ == "__main__":
    main()
