"""DARS: hard problems get more groups, so that as much is learned from them as from those of medium difficulty."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage_papers.tasks.numbered import NumberedProblems, ProblemOutcomes

SCHEDULES = ("equal", "hard")
EPSILON = 1e-6  # rounding of float32 does not ask for one more answer


class DARS(NumberedProblems):
    """Problems in epochs; after its first N answers a problem gets more, the rarer it was solved.

    The absolute advantages of N answers with the success rate p sum to N S(p) with

        S(p) = 2 sqrt(p (1 - p))   of advantages that are divided by the deviation (GRPO), at most N for p = 1/2
        S(p) = 2 p (1 - p)         of others (Dr. GRPO), at most N / 2

    With that maximum M, a problem of p < 1/2 gets ceil(M / S(p)) - N more answers by the schedule `equal`, which lifts
    its sum to M, and ceil(2 (1 - p) M / S(p)) - N by `hard`, which lifts it beyond; never more than `most` in all. A p
    of 0 counts as 1 / (2 N). Answers come in groups of the agent's `group_size`, `repeats` of which are the first N,
    so a started group is filled. By default the others come in the rollouts that follow. With `--memory pool` and as
    many `rounds` as it has, they come in the second and later rollouts of the same update, and all answers to a problem
    are one group, as in the paper; what is left over has no answers then, and places that nobody needs have the next
    problems.

    Source: Yang, Guo, Huang, Wang, Xie, Liang, Tang (2025), "Depth-Breadth Synergy in RLVR: Unlocking LLM Reasoning
    Gains with Adaptive Exploration", arXiv 2508.13755; the rules are those of the authors' program,
    github.com/yangzhch6/DARS (`ray_dars_trainer.py`). Its README has
    `most` 32 for the first schedule and 64 for the second. The paper's text could not be looked up. DARS-B's breadth
    is the agent's: more `num_envs`, and one minibatch.
    """

    example: ClassVar[str] = "forage train grpo text:addition --env.problems 1000 --env.level 0-3 --tasks dars"
    ranges: ClassVar[Ranges] = {"most": Range(1), "rounds": Range(1), "repeats": Range(1)}
    epochs: ClassVar[bool] = True
    choices: ClassVar[Choices] = {"schedule": SCHEDULES}

    schedule: str = equinox.field(static=True, default="equal")  # how many answers hard problems get: equal or hard
    rounds: int = equinox.field(static=True, default=1)  # rollouts to an update, as many as `--memory pool` has
    repeats: int = equinox.field(static=True, default=1)  # groups of first answers to a problem
    most: int = equinox.field(static=True, default=32)  # answers to a problem in an epoch; with `hard` the paper has 64
    normalised: bool = equinox.field(static=True, default=True)  # the agent divides advantages by their deviation

    def first(self, environment: Any) -> Int[Array, " number"]:
        return jnp.zeros(environment.num_starts, jnp.int32)  # groups owed

    def update_state(
        self, own: Int[Array, " number"], heard: ProblemOutcomes, environment: Any
    ) -> Int[Array, " number"]:
        again = played_groups(own, environment.slot)
        size = jnp.maximum(heard.answers / self.repeats, 1)
        groups = jnp.ceil(self.extra_answers(heard.rate, heard.answers) / size)
        return own - again + jnp.where(heard.met & (again == 0), groups, 0).astype(jnp.int32)

    def extra_answers(self, rate: Float[Array, " number"], answers: Float[Array, " number"]) -> Float[Array, " number"]:
        """Return the number of additional answers for each problem, given its success rate and its answers so far."""
        count = jnp.maximum(answers, 1)
        p = jnp.where(rate > EPSILON, rate, 0.5 / count)
        variance = p * (1 - p)
        each = jnp.maximum(2 * jnp.sqrt(variance) if self.normalised else 2 * variance, EPSILON)
        peak = count if self.normalised else count / 2
        wanted = peak if self.schedule == "equal" else 2 * (1 - p) * peak
        more = jnp.minimum(jnp.ceil(wanted / each - count - EPSILON), self.most - count)
        return jnp.where(p < 0.5, jnp.maximum(more, 0), 0)

    def end_step(self, own: Int[Array, " number"]) -> Int[Array, " number"]:
        return jnp.zeros_like(own)

    def owes(self, own: Int[Array, " number"], environment: Any) -> Int[Array, " number"]:
        return own


def played_groups(owed: Int[Array, " number"], slots: Int[Array, ""]) -> Int[Array, " number"]:
    """Return the number of owed groups of each problem that these slots have played."""
    before = jnp.cumsum(owed) - owed
    return jnp.clip(slots - before, 0, owed).astype(jnp.int32)
