"""Tasks of MuJoCo in which the time limit is an end: nothing is worth anything after it.

CleanRL's `ppo_continuous_action.py` learns so, as it joins terminations and truncations before it computes advantages.
"""

from __future__ import annotations

from typing import Any

import gymnasium


class LimitAsEnd(gymnasium.Wrapper):
    """An environment that reports a truncation as a termination."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated or truncated, False, info


def half_cheetah() -> gymnasium.Env:
    """Make HalfCheetah-v4, whose episodes only the limit of 1,000 steps ends."""
    return LimitAsEnd(gymnasium.make("HalfCheetah-v4"))


def walker2d() -> gymnasium.Env:
    """Make Walker2d-v4, whose episodes end with a fall or after 1,000 steps."""
    return LimitAsEnd(gymnasium.make("Walker2d-v4"))
