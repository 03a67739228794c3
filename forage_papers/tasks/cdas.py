"""CDAS: difficulties of problems and the policy's competence follow from answers, and the two are aligned."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from forage_papers.tasks.numbered import NumberedProblems, ProblemOutcomes


class Ratings(NamedTuple):
    """The fixed-point system of difficulties and competence."""

    difficulty: Float[Array, " number"]
    rollouts: Int[Array, " number"]  # in which the problem was answered
    competence: Float[Array, ""]


class CDAS(NumberedProblems):
    """The problems with a difficulty nearest to the policy's competence, half from below and half from above.

    With the competence C and the n-th success rate p of a problem of difficulty D, all at first 0,

        D <- n / (n + 1) D + (sigmoid(C - D) - p) / (n + 1)          of the problems that were answered
        C <- C - (sum of the changes of D) / (number of problems)

    so a difficulty is the mean of how much rarer than expected a problem was solved. Where one side has too few
    problems, the other fills the rollout. Equal ones come in random order, as all do at first.

    Source: Kong, Guo, Xi, Wang, Wang, Cai, Zhang, Ye (2025), "Rethinking the Sampling Criteria in Reinforcement
    Learning for LLM Reasoning: A Competence-Difficulty Alignment Perspective", arXiv 2505.17652; the rule is the one of
    the authors' program, github.com/DeyangKong/CDAS (`rl_cdas_dataset.py`), which counts the first difficulty, 0, among
    those that the mean is of. The paper's text could not be looked up.
    """

    example: ClassVar[str] = "forage train grpo text:addition --env.problems 1000 --env.level 0-3 --tasks cdas"

    def first(self, environment: Any) -> Ratings:
        return Ratings(jnp.zeros(environment.num_starts), jnp.zeros(environment.num_starts, jnp.int32), jnp.zeros(()))

    def update_state(self, own: Ratings, heard: ProblemOutcomes, environment: Any) -> Ratings:
        count = own.rollouts + heard.met
        surprise = jax.nn.sigmoid(own.competence - own.difficulty) - heard.rate
        new = (count * own.difficulty + surprise) / (count + 1)
        difficulty = jnp.where(heard.met, new, own.difficulty)
        change = (difficulty - own.difficulty).sum() / environment.num_starts
        return Ratings(difficulty, count.astype(jnp.int32), own.competence - change)

    def rank(self, own: Ratings, key: Key[Array, ""], environment: Any) -> Float[Array, " number"]:
        """Rank the nearest of each side alternately."""
        above, distance = own.difficulty > own.competence, jnp.abs(own.difficulty - own.competence)
        order = jnp.lexsort((jax.random.uniform(key, distance.shape), distance, above))
        place = jnp.zeros_like(distance).at[order].set(jnp.arange(len(distance), dtype=jnp.float32))
        return jnp.where(above, 2 * (place - (~above).sum()) + 1, 2 * place)
