"""Vector environments with one fault each, and sound ones with spaces of every kind."""

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

LENGTH = 5


class Sound(VectorEnv):
    """Episodes of `LENGTH` steps; shows the time and a random number, with reward for action 1."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    single_observation_space = spaces.Box(-9, 9, (2,), np.float32)
    single_action_space = spaces.Discrete(2)

    def __init__(self, num_envs=2, bonus=0.0):
        self.num_envs, self.bonus = num_envs, bonus
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # which takes one number
        self.time = np.zeros(self.num_envs, int)
        return self.see(), self.infos()

    def see(self):
        chance = self.np_random.uniform(0, 1, self.num_envs)
        return np.stack([self.time, chance], 1).astype(np.float32)

    def infos(self):
        return {}

    def pay(self, actions):
        return np.asarray(actions == 1, np.float64) + self.bonus

    def step(self, actions):
        self.actions = actions
        self.time += 1
        ended, info, reward = self.time >= LENGTH, self.infos(), self.pay(actions)
        if ended.any():
            info |= {"final_obs": self.final(), "_final_obs": ended.copy(), "final_info": self.infos()}
            self.time[ended] = 0
            info |= self.infos()  # of the new episodes
        return self.see(), reward, np.zeros(self.num_envs, bool), ended, info

    def final(self):
        return self.see()


def fault(**methods):
    return type("Faulty", (Sound,), methods)


def replace(place, change):
    """Return a class with a step that changes its result at one place."""

    def step(self, actions):
        result = list(Sound.step(self, actions))
        result[place] = change(self, result[place])
        return tuple(result)

    return fault(step=step)


def observe(change):
    return fault(see=lambda self: change(self, Sound.see(self)))


BOX = spaces.Box(-9, 9, (2,), np.float32)
FAULTS = {
    "shape": (observe(lambda self, x: x[:, :1]), r"observation float32\[2, 1\] .*promises float32\[2, 2\]"),
    "rows": (observe(lambda self, x: x[:1]), r"observation float32\[1, 2\] .*promises float32\[2, 2\]"),
    "dtype": (
        fault(single_observation_space=spaces.Box(0, 9, (2,), np.int32), see=lambda self: Sound.see(self) + 0.5),
        "float64 does not become int32|float32 does not become int32",
    ),
    "nan": (
        observe(lambda self, x: np.where(self.time[:, None] == 3, np.nan, x).astype(np.float32)),
        "NaN as observation",
    ),
    "choice": (
        fault(single_observation_space=spaces.Discrete(3), see=lambda self: self.time.copy()),
        "observation 3 at step 3 in environment 0; its space promises whole numbers from 0 to 2",
    ),
    "part": (
        fault(single_observation_space=spaces.Dict({"a": BOX, "b": BOX}), see=lambda self: {"a": Sound.see(self)}),
        "without its part b",
    ),
    "reward-shape": (replace(1, lambda self, x: x[:, None]), r"as reward float64\[2, 1\] .*one number for each"),
    "reward-one": (replace(1, lambda self, x: 1.0), "as reward 1.0 .*one number for each environment"),
    "reward-none": (replace(1, lambda self, x: np.array([None] * 2)), r"as reward object\[2\]"),
    "reward-nan": (replace(1, lambda self, x: x * np.nan), "NaN as reward"),
    "flag-shape": (replace(2, lambda self, x: False), "as terminated False .*one truth value for each"),
    "flag-number": (replace(3, lambda self, x: x * 2), "as truncated 2 .*it should be True or False"),
    "four": (
        fault(step=lambda self, a: Sound.step(self, a)[:4]),
        r"returned 4 values from step .*\(observation, reward, terminated, truncated, info\)",
    ),
    "info": (replace(4, lambda self, x: [x]), "returned as info .*it should be a dictionary"),
    "no-final": (replace(4, lambda self, x: {}), "ended an episode without final_obs in its info"),
    "final-none": (
        replace(4, lambda self, x: x | {"final_obs": np.array([None] * 2)} if x else x),
        "ended an episode without final_obs",
    ),
    "final-shared": (
        fault(
            see=lambda self: self.__dict__.setdefault("buffer", np.zeros((self.num_envs, 2), np.float32)),
        ),
        "gave as final_obs the array in which the new episode's first observation is",
    ),
    "mask-late": (
        replace(4, lambda self, x: x | {"action_mask": np.ones((self.num_envs, 2), np.int8)}),
        "action_mask in its info that cannot be obeyed",
    ),
    "reset": (
        fault(reset=lambda self, *, seed=None, options=None: Sound.reset(self, seed=seed)[0]),
        r"from reset at reset; it should return \(observation, info\)",
    ),
}
"""The fault, the class, and the expected sentence."""
