"""The outcomes of a rollout, problem by problem."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.core.ports import RolloutReport
from forage.core.types import Experience


class ProblemOutcomes(NamedTuple):
    """The outcome of a rollout, problem by problem.

    A score is the truth of an episode's answer as a verifier tells it, else the episode's return, cut at 0 and 1.
    """

    answers: Float[Array, " number"]  # episodes that ended
    right: Float[Array, " number"]  # the sum of their scores
    least: Float[Array, " number"]  # the lowest score; 1 where no episode ended
    most: Float[Array, " number"]  # the highest; 0 where no episode ended

    @property
    def met(self) -> Bool[Array, " number"]:
        """Return a mask of the problems with answers."""
        return self.answers > 0

    @property
    def rate(self) -> Float[Array, " number"]:
        """Return the success rate of each problem; 0 without answers."""
        return self.right / jnp.maximum(self.answers, 1)

    @property
    def mean(self) -> Float[Array, ""]:
        """Return the mean score of all answers."""
        return self.right.sum() / jnp.maximum(self.answers.sum(), 1)


def rollout_outcomes(rollout: Experience, review: RolloutReport, numbered: int) -> ProblemOutcomes:
    """Return the outcome of a rollout. Of an episode that began before it only the rewards from then on are known.

    An episode that was lost, or was an opponent's, is no answer.
    """
    ended, visited = rollout.ended, review.visited
    number = visited.tasks.number.reshape(-1)  # type: ignore[union-attr]

    def add(total: Float[Array, " env"], step: tuple[Array, Array]) -> tuple[Array, Array]:
        reward, begins = step
        total = jnp.where(begins, 0.0, total) + reward
        return total, total

    nothing = jnp.zeros_like(rollout.reward[0])
    score = jax.lax.scan(add, nothing, (rollout.reward, visited.begins(ended)))[1]
    if "truth" in rollout.info:  # what else is paid, such as for the form of an answer, is no success
        score = jnp.where(jnp.isnan(rollout.info["truth"]), score, rollout.info["truth"])
    score, ended = jnp.clip(score, 0, 1).reshape(-1), (ended & rollout.counts).reshape(-1)

    def empty(value: float) -> Float[Array, " number"]:
        return jnp.full(numbered, value, jnp.float32)

    return ProblemOutcomes(
        empty(0).at[number].add(ended),
        empty(0).at[number].add(jnp.where(ended, score, 0)),
        empty(1).at[number].min(jnp.where(ended, score, 1)),
        empty(0).at[number].max(jnp.where(ended, score, 0)),
    )
