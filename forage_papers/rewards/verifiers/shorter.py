"""A reward for answers of the length of the shortest right one."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox

from forage.core.ranges import Range, Ranges
from forage.core.types import Experience
from forage.rewards.verifiers.base import TextRewards, at_the_end, lengths
from forage_papers.ops.tokens.lengths import shorter_better


class Shorter(TextRewards):
    """r' = truth [right] - price |length - L|, with L the length of the group's shortest right answer.

    Where no answer of a group is right, L is the mean of their lengths (`ops.tokens.lengths.shorter_better`). An answer
    is right where its episode's reward is `right` or more. Lengths count the tokens of all its turns; the whole reward
    stands at the last turn.

    Source: Yi, Wang, Li, 2025, "ShorterBetter: Guiding Reasoning Models to Find Optimal Inference Length for Efficient
    Reasoning", arXiv 2504.21370; `truth` and `price` are those of the authors' `sb_compute_score`, for answers of
    thousands of tokens. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --rewards shorter --rewards.price 0.01"
    ranges: ClassVar[Ranges] = {"truth": Range(0), "price": Range(0), "right": Range(), "group_size": Range(2)}

    truth: float = 1.0  # reward of a right answer; the authors' released models have 2
    price: float = 0.001  # price of each token that an answer is longer or shorter than the shortest right one
    right: float = 1.0  # reward of an episode from which its answer counts as right
    group_size: int = equinox.field(static=True, default=8)  # answers to one prompt, side by side; the agent's

    @property
    def group(self) -> int:
        return self.group_size

    def relabel(self, state: Any, experience: Experience) -> Experience:
        given = self.inner.relabel(state, experience)
        right = (given.reward.sum(0) >= self.right).reshape(-1, self.group_size)
        length = lengths(experience).reshape(-1, self.group_size)
        paid = shorter_better(length, right, self.truth, self.price)
        return given._replace(reward=at_the_end(experience, paid.reshape(-1)))
