"""E3: more answers to hard problems and fewer to easy ones, of a budget that stays the same."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError
from forage_papers.tasks.numbered import NumberedProblems, NumberedState, ProblemOutcomes, task


class Difficulties(NamedTuple):
    """The success of each problem, and its rank among all."""

    answers: Float[Array, " number"]
    right: Float[Array, " number"]
    rank: Float[Array, " number"]  # 0 for the easiest, as of the last epoch's end; 0 for all in the first epoch
    epochs: Int[Array, ""]
    played: Int[Array, ""]  # problems of the present epoch
    slots: Int[Array, ""]  # groups of a rollout; 0 before the first


class E3(NumberedProblems):
    """Problems in epochs; those of a rollout share its answers by their difficulty.

    B problems share N B groups of answers. A problem whose rank by success so far, from 0 for the easiest, is r gets

        floor(n + (N B - n B) r / sum of r)

    groups, and what rounding leaves over goes to the hardest, up to m groups each. N is `repeats`; n and m are N in the
    first epoch, and after each epoch n falls and m rises by `change`, to `least` and `most`. Ranks are computed after
    each epoch from all answers so far. With `--memory pool --memory.rounds 1` all answers to a problem are compared,
    and a small `group_size` of the agent makes the shares fine.

    Source: Liao, Xi, Chen, Leng, Hu, Zeng, Liu, Wan (2025), "Enhancing Efficiency and Exploration in Reinforcement
    Learning for LLMs" (E3), arXiv 2505.18573, as in the authors' program, github.com/LiaoMengqi/E3-RL4LLMs
    (`get_rollout_n_per_prompt` of `ray_trainer.py`, `update_rank` of `rl_dataset.py` and `train_1_5b.sh`), which has 8
    answers at first, and then down to 4 and up to 12, by steps of 2: the numbers here with groups of 2. The paper's
    pages could not be looked up. Its temperature is `--behaviour adaptive-temperature`.
    """

    example: ClassVar[str] = (
        "forage train grpo text:addition --group-size 2 --env.problems 1000 --env.level 0-3 --tasks e3 --memory pool "
        "--memory.rounds 1"
    )
    ranges: ClassVar[Ranges] = {"repeats": Range(1), "least": Range(1), "most": Range(1), "change": Range(0)}
    epochs: ClassVar[bool] = True

    repeats: int = equinox.field(static=True, default=4)  # groups of answers to a problem on average
    least: int = equinox.field(static=True, default=2)  # groups of the easiest problems in the end
    most: int = equinox.field(static=True, default=6)  # groups up to which the hardest get what is left over
    change: int = equinox.field(static=True, default=1)  # by which both bounds move away from the average in an epoch

    def __check_init__(self):
        if not self.least <= self.repeats <= self.most:
            raise ForageError(
                f"E3 has from {self.least} to {self.most} groups of answers to a problem, and {self.repeats} on "
                f"average; give an average in between."
            )

    def first(self, environment: Any) -> Difficulties:
        nothing = jnp.zeros(environment.num_starts)
        return Difficulties(nothing, nothing, nothing, jnp.int32(0), jnp.int32(0), jnp.int32(0))

    def update_state(self, own: Difficulties, heard: ProblemOutcomes, environment: Any) -> Difficulties:
        number = environment.num_starts
        answers, right = own.answers + heard.answers, own.right + heard.right
        played = own.played + environment.slot // self.repeats
        over = played >= number
        order = jnp.argsort(-right / jnp.maximum(answers, 1), stable=True)
        rank = jnp.zeros(number).at[order].set(jnp.arange(number) / number)
        return Difficulties(
            answers,
            right,
            jnp.where(over, rank, own.rank),
            own.epochs + over,
            jnp.where(over, 0, played).astype(jnp.int32),
            jnp.int32(environment.slot),
        )

    def share_groups(self, own: Difficulties, order: Int[Array, " number"]) -> Int[Array, " number"]:
        """Return the number of groups of each problem of the next rollout, in their order in the queue."""
        problems = own.slots // self.repeats
        there = jnp.arange(len(order)) < problems
        rank = jnp.where(there, own.rank[order], 0.0)
        least = jnp.maximum(self.repeats - self.change * own.epochs, self.least)
        most = jnp.minimum(self.repeats + self.change * own.epochs, self.most)
        extra = (own.slots - problems * least) * rank / (rank.sum() + 1e-8)
        count = jnp.where(there, jnp.floor(least + extra), 0).astype(jnp.int32)
        hardest = jnp.argsort(-rank, stable=True)
        room = jnp.where(there, jnp.maximum(most - count, 0), 0)[hardest]
        left = own.slots - count.sum()
        added = jnp.clip(left - (jnp.cumsum(room) - room), 0, room)
        return jnp.where(own.slots > 0, count.at[hardest].add(added), self.repeats)

    def next(self, state: NumberedState, environment: Any, key: Key[Array, ""]) -> PyTree[Array | None]:
        number = environment.num_starts
        order = state.queue[(state.place + jnp.arange(number)) % number]
        ends = jnp.cumsum(self.share_groups(state.own, order))
        place = jnp.searchsorted(ends, environment.slot, side="right")
        return task(environment, order[jnp.minimum(place, number - 1)])
