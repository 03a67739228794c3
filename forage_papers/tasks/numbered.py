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
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import RolloutReport, Tasks
from forage.core.ports.needs import Needs
from forage.core.types import Experience
from forage_papers.tasks.outcomes import ProblemOutcomes, rollout_outcomes


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
