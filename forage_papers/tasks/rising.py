"""RLVE: a window of levels that moves up once its upper level is solved."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError
from forage_papers.tasks.numbered import NumberedProblems, ProblemOutcomes, levels


class RisingState(NamedTuple):
    """The window, and the answers counted at its upper level since the last check."""

    level: Int[Array, " number"]  # of each problem, counted from the easiest
    high: Int[Array, ""]
    answers: Float[Array, ""]
    right: Float[Array, ""]


class Rising(NumberedProblems):
    """Problems of a window of levels, each level equally often.

    Answers at the upper level are counted. Once there are `answers` of them, the window moves up by one level where at
    least the share `threshold` was right, and the count begins anew either way. It never moves down. It starts at the
    easiest level alone, and is `width` levels wide once there are so many below the upper one. Levels are the
    different difficulties of the environment's problems. Where a rollout has more groups than the window has problems,
    problems of the other levels fill it, the nearest level first.

    Source: Zeng, Ivison, Wang, Yuan et al. (2025), "RLVE: Scaling Up Reinforcement Learning for Language Models with
    Adaptive Verifiable Environments", arXiv 2511.07317. The rule and its defaults are those of
    `forage.environments.text.difficulty`, of one family of problems.
    """

    example: ClassVar[str] = "forage train grpo text:addition --env.problems 8000 --env.level 0-7 --tasks rising"
    ranges: ClassVar[Ranges] = {
        "threshold": Range(0, 1, above=True),
        "answers": Range(1),
        "width": Range(1),
    }

    threshold: float = 0.9  # share of right answers at the upper level from which on the window moves
    answers: int = equinox.field(static=True, default=64)  # at the upper level before a check; RLVE's 8 groups of 8
    width: int = equinox.field(static=True, default=4)  # levels in the window

    def check(self, environment: Any) -> None:
        super().check(environment)
        if int(levels(environment.difficulty).max()) == 0:
            raise ForageError(
                f"All problems of {environment.spec.name} are of one level, and Rising moves from level to "
                f"level; give several, as in --env.level 0-3."
            )

    def first(self, environment: Any) -> RisingState:
        return RisingState(levels(environment.difficulty), jnp.int32(0), jnp.zeros(()), jnp.zeros(()))

    def update_state(self, own: RisingState, heard: ProblemOutcomes, environment: Any) -> RisingState:
        top = own.level == own.high
        answers, right = own.answers + (heard.answers * top).sum(), own.right + (heard.right * top).sum()
        due = answers >= self.answers
        # An exact share of float32 sums: 0.9 of 60 answers is 54 of them
        moves = due & (right >= self.threshold * answers - 1e-4)
        high = jnp.minimum(own.high + moves, own.level.max()).astype(jnp.int32)
        return RisingState(own.level, high, jnp.where(due, 0, answers), jnp.where(due, 0, right))

    def rank(self, own: RisingState, key: Key[Array, ""], environment: Any) -> Float[Array, " number"]:
        """Rank one random problem of each level of the window, in random order, then another one of each."""
        chance, turn = jax.random.uniform(key, (2, environment.num_starts))
        order = jnp.lexsort((chance, own.level))
        place = jnp.zeros(environment.num_starts).at[order].set(jnp.arange(environment.num_starts, dtype=jnp.float32))
        below = jnp.searchsorted(own.level[order], own.level)
        distance = jnp.maximum(own.high - self.width + 1 - own.level, own.level - own.high)
        return place - below + turn + jnp.maximum(distance, 0) * environment.num_starts
