"""A bonus for every turn of an episode, such as a call of a tool, that is annealed away."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience
from forage.rewards.verifiers.base import TextRewards, at_the_end, last_info


class TurnBonus(TextRewards):
    """r' = r + coefficient min(1, each n), with the n turns that an episode takes.

    It lets an agent learn first to act and to call tools, and later what for: a coefficient of `cosine:1,0,0.5` falls
    as (1 + cos(pi t)) / 2 over the first half of a run. It stands at the last turn.

    Source: Qin, Tan, He et al. (2025), "Learn the Ropes, Then Trust the Wins: Self-imitation with Progressive
    Exploration for Agentic Reinforcement Learning" (SPEAR), arXiv 2509.22601, as in the authors' program,
    github.com/TencentYoutuResearch/SPEAR (`verl-agent/agent_system/reward_manager/episode.py`): 0.1 a turn, up to 1,
    with the factor (1 + cos(pi step / 200)) / 2 for the first 200 updates. The memory is `--memory self-imitation`;
    clipping by covariance, the loss there, is none of its parts.
    """

    example: ClassVar[str] = (
        "forage train grpo text:addition --env.tools calculator --memory self-imitation --rewards turn-bonus "
        "--rewards.coefficient cosine:1,0,0.5"
    )
    ranges: ClassVar[Ranges] = {"coefficient": Range(0), "each": Range(0)}
    needs: ClassVar[Needs] = Needs(observations="text", info=("turns",))

    coefficient: float = 1.0  # weight of the bonus; a schedule anneals it
    each: float = 0.1  # bonus of a turn; all turns together bring 1 at most

    def relabel(self, state: Any, experience: Experience) -> Experience:
        given = self.inner.relabel(state, experience)
        bonus = self.coefficient * jnp.minimum(1.0, self.each * last_info(experience, "turns"))
        return given._replace(reward=given.reward + at_the_end(experience, bonus))
