"""Online difficulty filtering: problems that are solved sometimes, and neither always nor never."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges, check_order
from forage_papers.tasks.numbered import NumberedProblems, ProblemOutcomes


class Rates(NamedTuple):
    """Statistics of each problem."""

    rate: Float[Array, " number"]  # running success rate
    answers: Float[Array, " number"]
    age: Int[Array, " number"]  # rollouts since it was answered


class FilteredProblems(NumberedProblems):
    """Problems with a success rate between two bounds, or an unknown one, in random order.

    A group of answers whose rate p is 0 or 1 teaches nothing, and the expected improvement of the policy is bounded by
    the variance p (1 - p): a balanced band around 1/2 maximises it. Where too few problems are in the band to fill a
    rollout, the ones whose rate was measured longest ago fill it. A rate that was not measured for `patience` rollouts
    counts as unknown, so that every problem comes again.

    Source: Bae, Hong, Lee, Kim, Nam, Kwak (2025), "Online Difficulty Filtering for Reasoning Oriented Reinforcement
    Learning", arXiv 2504.03380, of which the abstract was read; it has no public program. There a group is
    sampled, dropped where its rate is beyond the bounds, and replaced until the batch is full. A rollout has a fixed
    size here, so problems are left out before it, by the rate when they came last; `--agent.alike drop` of GRPO leaves
    out groups of one reward after it. The paper's bounds could not be looked up, and these are ours.
    """

    example: ClassVar[str] = "forage train grpo text:addition --env.problems 1000 --env.level 0-3 --tasks filtered"
    own_choices: ClassVar[str] = "both bounds, and the choice before a rollout in place of behind it"
    ranges: ClassVar[Ranges] = {
        "low": Range(0, 1),
        "high": Range(0, 1),
        "patience": Range(1),
        "keep": Range(0, 1, below=True),
    }

    low: float = 0.2  # problems that are solved more rarely are too hard
    high: float = 0.8  # problems that are solved more often are too easy
    patience: int = equinox.field(static=True, default=20)  # rollouts after which a success rate counts as unknown
    keep: float = 0.0  # weight of the older answers to a problem in its rate; 0: the newest group alone

    def check(self, environment: Environment) -> None:
        check_order(self, "low", "high")

    def first(self, environment: Any) -> Rates:
        nothing = jnp.zeros(environment.num_starts)
        return Rates(nothing, nothing, jnp.zeros(environment.num_starts, jnp.int32))

    def update_state(self, own: Rates, heard: ProblemOutcomes, environment: Any) -> Rates:
        rate = running(own.rate, own.answers, heard, self.keep)
        return Rates(rate, own.answers + heard.answers, jnp.where(heard.met, 0, own.age + 1))

    def rank(self, own: Rates, key: Key[Array, ""], environment: Any) -> Float[Array, " number"]:
        unknown = (own.answers == 0) | (own.age >= self.patience)
        wanted = unknown | ((own.rate >= self.low) & (own.rate <= self.high))
        chance = jax.random.uniform(key, own.rate.shape)
        return jnp.where(wanted, chance - 1, self.patience - own.age + chance)


def running(
    rate: Float[Array, " number"], before: Float[Array, " number"], heard: ProblemOutcomes, keep: float
) -> Float[Array, " number"]:
    """Return a running success rate: `keep * rate + (1 - keep) * new`; of problems not met before the new one alone.

    `before`: how many answers each problem had; problems without a new answer stay as they are.
    """
    blended = jnp.where(before > 0, keep * rate + (1 - keep) * heard.rate, heard.rate)
    return jnp.where(heard.met, blended, rate)
