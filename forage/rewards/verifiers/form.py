"""A reward for the form of an answer, in addition to the one for its truth."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
from jaxtyping import Array, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock, Experience
from forage.rewards.verifiers.base import TextRewards, at_the_end, last_info


class Format(TextRewards):
    """r' = r + weight [the answer can be parsed], with r the reward of `inner`: in text, the truth of the answer.

    An answer that can be read is right or wrong; one that cannot is neither, and a policy that has not learned the form
    yet is never paid for the truth. The two are also reported apart, as `form` and `truth`, means over episodes: an
    agent may be at 1 of the one and at 0 of the other.

    Source: DeepSeek-AI, 2025, "DeepSeek-R1: Incentivizing Reasoning Capability in LLMs via Reinforcement Learning",
    arXiv 2501.12948 (accuracy rewards and format rewards). It does not say how they are weighed; 0.1 is what verl's
    scorer of Countdown pays. Both from memory.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --rewards format"
    ranges: ClassVar[Ranges] = {"weight": Range(0)}
    needs: ClassVar[Needs] = Needs(
        info=("format", "truth"),
        reason="Format pays for answers that a verifier can read",
        instead="use a problem such as text:addition",
    )

    weight: float = 0.1  # what an answer that can be read is paid beside the reward; more teaches the form first

    def relabel(self, state: Any, experience: Experience) -> Experience:
        given = self.inner.relabel(state, experience)
        form = at_the_end(experience, self.weight * last_info(experience, "format"))
        return given._replace(reward=given.reward + form)

    def learn(
        self, state: Any, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, PyTree[Array], Metrics]:
        state, rewards_info, metrics = self.inner.learn(state, rollout, clock, key)
        apart = jax.tree.map(
            lambda x: x.mean(), {"form": last_info(rollout, "format"), "truth": last_info(rollout, "truth")}
        )
        return state, rewards_info, metrics | apart
