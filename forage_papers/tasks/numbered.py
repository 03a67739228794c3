"""The kit of tasks that choose among an environment's numbered problems.

A rollout plays some groups of episodes, each of one problem. A part says which problems come next: those that it owes,
in the order of their numbers and as many groups as it owes, and then a queue. Either the queue is made anew after each
rollout, the best problem first; or it is an epoch, in which each problem comes once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import RolloutReport, Tasks
from forage.core.ports.needs import Needs
from forage.core.types import Experience

EPSILON = 1e-6


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


class NumberedState(NamedTuple):
    """The problems to come, and the part's own state."""

    owed: Int[Array, " number"]  # groups that a problem gets before the queue's
    queue: Int[Array, " number"]
    place: Int[Array, ""]  # of the next problem in the queue
    length: Int[Array, ""]  # places in the queue before what the epoch leaves out
    own: Any


class NumberedProblems(Tasks):
    """A part that chooses among numbered problems. It defines at least one of `rank` and `owes`."""

    on_host: ClassVar[bool] = True
    adapts: ClassVar[bool] = True

    epochs: ClassVar[bool] = False
    """Each problem comes once in an epoch; otherwise the best ones come after every rollout."""
    rounds: ClassVar[int] = 1
    """Rollouts to an update, where a memory pools them: `--memory pool`."""
    repeats: ClassVar[int] = 1
    """Groups of each problem of the queue."""
    needs: ClassVar[Needs] = Needs(
        provides="num_starts",
        one_reward=True,
        reason="{} chooses among numbered problems",
        instead="use text:addition or the like, with their number, as in --env.problems 1000",
    )

    def first(self, environment: Any) -> Any:
        """Return the part's own state at the beginning; `()` for none."""
        return ()

    def update_state(self, own: Any, heard: ProblemOutcomes, environment: Any) -> Any:
        """Return the part's own state after a rollout."""
        return own

    def end_step(self, own: Any) -> Any:
        """Return the part's own state after the last of several rollouts to an update."""
        return own

    def rank(self, own: Any, key: Key[Array, ""], environment: Any) -> Float[Array, " number"]:
        """Return the rank of each problem: lower ones come first. The default is a random order."""
        return jax.random.uniform(key, (environment.num_starts,))

    def leaves_out(self, own: Any, key: Key[Array, ""], environment: Any) -> Bool[Array, " number"]:
        """Return a mask of the problems to leave out of an epoch that begins now, as long as enough others remain."""
        return jnp.zeros(environment.num_starts, bool)

    def owes(self, own: Any, environment: Any) -> Int[Array, " number"]:
        """Return the number of groups of each problem that come before all others."""
        return jnp.zeros(environment.num_starts, jnp.int32)

    def hint(self, own: Any, number: Int[Array, ""]) -> Float[Array, ""] | None:
        """Return the share of a problem's solution that is given away; `None` for a part without hints."""
        return None

    def limits(self, own: Any) -> dict[str, Int[Array, ""]]:
        """Return the limits of the next episodes, by name: of turns, context or response."""
        return {}

    def restarts(self, before: Any, own: Any) -> Bool[Array, ""] | bool:
        """Return whether an epoch begins before the last one is over, by the part's states before and after."""
        return False

    def init(self, key: Key[Array, ""], environment: Any) -> NumberedState:
        own = self.first(environment)
        queue, length = self.queue(own, key, environment, jnp.zeros(environment.num_starts, bool))
        return NumberedState(self.owes(own, environment), queue, jnp.int32(0), length, own)

    def queue(
        self, own: Any, key: Key[Array, ""], environment: Any, ahead: Bool[Array, " number"]
    ) -> tuple[Int[Array, " number"], Int[Array, ""]]:
        """Return a new queue, with `ahead` first and left-out problems last, and its length without the latter."""
        order_key, skip_key = jax.random.split(key)
        out = self.leaves_out(own, skip_key, environment) & ~ahead
        queue = jnp.lexsort((self.rank(own, order_key, environment), out, ~ahead))
        return queue.astype(jnp.int32), (~out).sum().astype(jnp.int32)

    def next(self, state: NumberedState, environment: Any, key: Key[Array, ""]) -> PyTree[Array | None]:
        slot, total = environment.slot, state.owed.sum()
        again = jnp.searchsorted(jnp.cumsum(state.owed), slot, side="right").astype(jnp.int32)
        fresh = state.queue[(state.place + (slot - total) // self.repeats) % environment.num_starts]
        number = jnp.where(slot < total, jnp.minimum(again, environment.num_starts - 1), fresh)
        return task(environment, number, self.hint(state.own, number), self.limits(state.own))

    def report(self, state: NumberedState, rollout: Experience, review: RolloutReport) -> NumberedState:
        environment: Any = review.environment
        own = self.update_state(state.own, rollout_outcomes(rollout, review, environment.num_starts), environment)
        if self.rounds > 1:
            number = review.clock.steps // rollout.terminated.size
            last = (number + 1) % self.rounds == 0
            own = jax.tree.map(lambda yes, no: jnp.where(last, yes, no), self.end_step(own), own)
        used = -(-environment.slot // self.repeats)  # problems that the rollout had room for
        fresh = -(-jnp.maximum(environment.slot - state.owed.sum(), 0) // self.repeats)
        place = (state.place + fresh).astype(jnp.int32)
        at = jnp.zeros_like(state.queue).at[state.queue].set(jnp.arange(environment.num_starts, dtype=jnp.int32))
        # An epoch is over where too few problems are left for another rollout; these come first in the next one.
        left = (at >= place) & (at < state.length) & self.epochs
        anew = jnp.bool_(self.restarts(state.own, own))
        over = (place + used > state.length) | (not self.epochs) | anew
        left &= ~anew
        queue, length = self.queue(own, review.key, environment, left)
        return NumberedState(
            self.owes(own, environment),
            jnp.where(over, queue, state.queue),
            jnp.where(over, 0, place),
            jnp.where(over, length, state.length),
            own,
        )


def task(
    environment: Any,
    number: Int[Array, ""] | None,
    hint: Float[Array, ""] | None = None,
    limits: Mapping[str, Int[Array, ""]] | None = None,
) -> PyTree[Array | None]:
    """Return the task of a problem, shaped like the environment, with a hint and limits or without."""
    chosen = {"number": None if number is None else jnp.int32(number)}
    chosen["hint"] = None if hint is None else jnp.float32(hint)
    chosen |= {name: jnp.int32(value) for name, value in (limits or {}).items()}
    return dataclasses.replace(jax.tree.map(lambda _: None, environment), **chosen)


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


def levels(difficulty: Float[np.ndarray, " number"]) -> Int[np.ndarray, " number"]:
    """Return the level of each problem, counted from 0; equal difficulties are one level."""
    ordered = np.sort(np.asarray(difficulty))
    level = np.concatenate([[0], np.cumsum(ordered[1:] > ordered[:-1] + EPSILON)])
    return level[np.searchsorted(ordered, difficulty)].astype(np.int32)


def running(
    rate: Float[Array, " number"], before: Float[Array, " number"], heard: ProblemOutcomes, keep: float
) -> Float[Array, " number"]:
    """Return a running success rate: `keep * rate + (1 - keep) * new`; of problems not met before the new one alone.

    `before`: how many answers each problem had; problems without a new answer stay as they are.
    """
    blended = jnp.where(before > 0, keep * rate + (1 - keep) * heard.rate, heard.rate)
    return jnp.where(heard.met, blended, rate)
