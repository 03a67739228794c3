"""Small environments that differ in what is compiled for them; `versions.py` trains in each with every version of JAX.

None has anything to learn: a step pays at random, and an episode is over after twenty.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Seen(gym.Env):
    """Samples of the spaces of a subclass."""

    observation_space: spaces.Space = spaces.Box(-1, 1, (3,), np.float32)
    action_space: spaces.Space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.look(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps += 1
        return self.look(), float(self.np_random.random()), False, self.steps >= 20, {}

    def look(self) -> Any:
        if self.steps == 0:
            self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()


class OneAction(Seen):
    """One continuous action, and one number is seen."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)


class TwoActions(Seen):
    action_space = spaces.Box(-2, 2, (2,), np.float32)


class ManyActions(Seen):
    action_space = spaces.Box(-1, 1, (17,), np.float32)


class NestedAction(Seen):
    """One continuous action in two axes, without a bound above."""

    action_space = spaces.Box(0, np.inf, (1, 1), np.float32)


class Choices(Seen):
    """Two choices at each step."""

    action_space = spaces.MultiDiscrete([2, 3])


class Masked(Seen):
    """One of three choices, of which one is refused."""

    observation_space = spaces.Dict(
        {"observation": spaces.Box(-1, 1, (3,), np.float32), "action_mask": spaces.MultiBinary(3)}
    )
    action_space = spaces.Discrete(3)

    def look(self) -> Any:
        return super().look() | {"action_mask": np.array([1, 0, 1], np.int8)}


class Picture(Seen):
    """A picture beside numbers and a choice, and one continuous action."""

    observation_space = spaces.Dict(
        {
            "picture": spaces.Box(0, 255, (36, 36, 3), np.uint8),
            "speed": spaces.Box(-1, 1, (2,), np.float32),
            "gear": spaces.Discrete(4),
        }
    )
