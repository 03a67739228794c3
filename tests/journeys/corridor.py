"""An environment by a user, with reward 1 at each step and an end after `length` steps; and bad ones."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Corridor(gymnasium.Env):
    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length=3):
        self.length = length

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(1, np.float32), 1.0, self.time >= self.length, False, {}


class Seedless(Corridor):
    def reset(self):
        self.time = 0
        return np.zeros(1, np.float32), {}


class FourTuple(Corridor):
    def step(self, action):
        seen, reward, ended, _, info = super().step(action)
        return seen, reward, ended, info


class Unstable(Corridor):
    def step(self, action):
        seen, _, *rest = super().step(action)
        return seen, float("nan"), *rest
