"""RLVE: a window of levels that moves up once its upper level is solved."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError
from forage_papers.tasks.numbered import NumberedProblems, ProblemOutcomes

EPSILON = 1e-6


class RisingState(NamedTuple):
    """The window of each family, and the answers counted at its upper level since the last check."""

    level: Int[Array, " number"]  # of each problem, counted from the easiest of its family
    kind: Int[Array, " number"]  # the family of each problem
    high: Int[Array, " kind"]
    answers: Float[Array, " kind"]
    right: Float[Array, " kind"]


class Rising(NumberedProblems):
    """Problems of a window of levels, each level equally often; of several families each has a window of its own.

    Answers at the upper level are counted. Once there are `answers` of them, the window moves up by one level where at
    least the share `threshold` was right, and the count begins anew either way. It never moves down. It starts at the
    easiest level alone, and is `width` levels wide once there are so many below the upper one. Levels are the
    different difficulties of the environment's problems. Families come equally often, whatever their windows. Where a
    rollout has more groups than the windows have problems, problems of other levels fill it, the nearest level first.

    Source: Zeng, Ivison, Wang, Yuan et al. (2025), "RLVE: Scaling Up Reinforcement Learning for Language Models with
    Adaptive Verifiable Environments", arXiv 2511.07317, and the authors' program, github.com/Zhiyuan-Zeng/RLVE
    (`rollout_data_source.py`), which draws a family and a level of its window for each prompt. The rule and its
    defaults are those of `forage.environments.text.difficulty`, of one family. Families are those of `text:A+B+C`; the
    authors have 400.
    """

    example: ClassVar[str] = (
        "forage train grpo text:addition+sorting+countdown --env.problems 6000 --env.level 0-3 --tasks rising"
    )
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
        if int(self.first(environment).level.max()) == 0:
            raise ForageError(
                f"All problems of {environment.spec.name} are of one level, and Rising moves from level to "
                f"level; give several, as in --env.level 0-3."
            )

    def first(self, environment: Any) -> RisingState:
        kind, difficulty = np.asarray(environment.kinds), np.asarray(environment.difficulty)
        level = np.zeros(len(kind), np.int32)
        for one in range(int(kind.max()) + 1):
            level[kind == one] = levels(difficulty[kind == one])
        nothing = jnp.zeros(int(kind.max()) + 1)
        return RisingState(jnp.asarray(level), jnp.asarray(kind), nothing.astype(jnp.int32), nothing, nothing)

    def update_state(self, own: RisingState, heard: ProblemOutcomes, environment: Any) -> RisingState:
        top = own.level == own.high[own.kind]
        answers = own.answers.at[own.kind].add(heard.answers * top)
        right = own.right.at[own.kind].add(heard.right * top)
        due = answers >= self.answers
        # An exact share of float32 sums: 0.9 of 60 answers is 54 of them
        moves = due & (right >= self.threshold * answers - 1e-4)
        last = jnp.zeros_like(own.high).at[own.kind].max(own.level)
        high = jnp.minimum(own.high + moves, last).astype(jnp.int32)
        return own._replace(high=high, answers=jnp.where(due, 0, answers), right=jnp.where(due, 0, right))

    def rank(self, own: RisingState, key: Key[Array, ""], environment: Any) -> Float[Array, " number"]:
        """Rank one random problem of each level of a window, in random order, then another one of each.

        The wider a family's window, the later its next ones come, so that families come equally often.
        """
        number = environment.num_starts
        chance, turn = jax.random.uniform(key, (2, number))
        cell = own.kind * number + own.level
        order = jnp.lexsort((chance, cell))
        place = jnp.zeros(number).at[order].set(jnp.arange(number, dtype=jnp.float32))
        position = place - jnp.searchsorted(cell[order], cell)
        high = own.high[own.kind]
        distance = jnp.maximum(high - self.width + 1 - own.level, own.level - high)
        width = jnp.minimum(high + 1, self.width)
        return (position + turn) * width + jnp.maximum(distance, 0) * number * self.width


def levels(difficulty: Float[np.ndarray, " number"]) -> Int[np.ndarray, " number"]:
    """Return the level of each problem, counted from 0; equal difficulties are one level."""
    ordered = np.sort(np.asarray(difficulty))
    level = np.concatenate([[0], np.cumsum(ordered[1:] > ordered[:-1] + EPSILON)])
    return level[np.searchsorted(ordered, difficulty)].astype(np.int32)
