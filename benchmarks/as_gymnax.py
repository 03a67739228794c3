"""MinAtar's Breakout as gymnax has it: actions are never repeated, and the limit of 1,000 steps is an end.

The observation is flat, as the networks of gymnax-blines read it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np

from forage.core.types import Step
from forage.environments.minatar.breakout import Breakout


class FlatBreakout(Breakout):
    """Breakout without sticky actions, of at most 1,000 steps, whose observation is a vector of 400 numbers."""

    sticky_action_prob: float = 0.0
    max_steps: int | None = 1000

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0, 1, (400,), dtype=np.float32)

    def observe(self, state: Any) -> Any:
        return super().observe(state).reshape(-1).astype(jnp.float32)

    def outcome(self, state: Any, reward: Any, terminated: Any) -> Step:
        step = super().outcome(state, reward, terminated)
        return step._replace(terminated=step.terminated | step.truncated, truncated=jnp.zeros_like(step.truncated))
