"""Small environments with mixed actions, native and of Gymnasium, whose best values are known by hand."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from forage.core.arrays import action_space
from forage.core.ports import Environment
from forage.core.types import Spec, Step

PARTS = spaces.Dict({
    "side": spaces.Discrete(2, start=5),
    "power": spaces.Box(0, 2, (1,)),
    "more": spaces.Tuple((spaces.MultiBinary(2), spaces.Box(-3, 90_000, (), np.int32))),
})  # fmt: skip
FLAT = action_space("parts", PARTS)
"""Leaves in Gymnasium's order: more.0 (two choices), more.1 (a number), power (a number), side (a choice)."""

SIGHT = spaces.Box(-1, 1, (2,), np.float32)


def spec_with(actions: spaces.Space, seen: spaces.Space = SIGHT) -> Spec:
    return Spec("mixed", seen, actions, horizon=1)


class Aim(Environment):
    """One step: 1 for the side of the first number, less the squared distance of the power from the second, plus 1.

    The best value is 1; the best constant side has 0.5, and the best constant power 1 less the variance of a number
    uniform in [-1, 1], 2/3.
    """

    horizon = 1
    observation_space = SIGHT
    action_space = PARTS

    def reset(self, key):
        seen = jax.random.uniform(key, (2,), minval=-1, maxval=1)
        return seen, seen

    def step(self, state, action, key):
        right = (action["side"] - 5 == (state[0] > 0)).astype(jnp.float32)
        reward = right - (action["power"][0] - 1 - state[1]) ** 2
        return state, Step(state, reward, jnp.bool_(True), jnp.bool_(False), {})


class GymAim(gymnasium.Env):
    """`Aim` of Gymnasium, which checks that each action is an element of its space."""

    observation_space = SIGHT
    action_space = PARTS

    def __init__(self, mask=None):
        self.mask = mask

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.seen, {} if self.mask is None else {"action_mask": self.mask}

    def step(self, action):
        assert self.action_space.contains(action), action
        reward = float(action["side"] - 5 == (self.seen[0] > 0)) - float(action["power"][0] - 1 - self.seen[1]) ** 2
        return *self.reset()[:1], reward, True, False, self.reset()[1]
