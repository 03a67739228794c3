"""Problems chosen by the first policy's success: those that it ever solves, or those that it never does."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage_papers.tasks.numbered import NumberedProblems, ProblemOutcomes

KEPT = ("solved", "unsolved", "differing")


class FirstOutcomes(NamedTuple):
    """Success of the first policy, problem by problem."""

    answers: Float[Array, " number"]
    right: Float[Array, " number"]
    rollouts: Int[Array, ""]


class FirstPolicy(NumberedProblems):
    """Problems in epochs, after `measured` rollouts those alone that the first policy solves, or does not.

    The first rollouts show how often each problem is solved. Of the problems that were answered in them those that were
    `solved` at least once are kept: groups of others would all have the same reward. `differing` leaves out those that
    were always solved, too. `unsolved` keeps the problems that the first policy never solved, on which only what it
    could not do already counts. The policy learns in these rollouts, unless the memory holds it back: `--memory
    successes --memory.waiting N` with as many rollouts N, as in ARPO.

    Source: of `solved`, Lu, Zhong, Liu, Fu, Jia (2025), "ARPO: End-to-End Policy Optimization for GUI Agents with
    Experience Replay", arXiv 2505.16282, which keeps 128 tasks that a baseline agent solves in some of its attempts;
    their number could not be looked up. Of `unsolved`, Mayilvahanan and others (2025), "MATH-Beyond: A Benchmark for RL
    to Expand Beyond the Base Model", which keeps the problems that base models do not solve within 1,024 answers;
    `forage evaluate RUN --pass` counts the problems that a run solves beyond its first model.
    """

    example: ClassVar[str] = (
        "forage train grpo text:countdown --env.problems 64 --tasks first-policy --tasks.measured 16 --memory "
        "successes --memory.waiting 16"
    )
    ranges: ClassVar[Ranges] = {"measured": Range(1)}
    choices: ClassVar[Choices] = {"kept": KEPT}
    epochs: ClassVar[bool] = True

    measured: int = equinox.field(static=True, default=16)  # rollouts in which the first policy's answers are counted
    kept: str = equinox.field(
        static=True, default="solved"
    )  # the problems that are kept: solved, unsolved or differing

    def first(self, environment: Any) -> FirstOutcomes:
        nothing = jnp.zeros(environment.num_starts)
        return FirstOutcomes(nothing, nothing, jnp.int32(0))

    def update_state(self, own: FirstOutcomes, heard: ProblemOutcomes, environment: Any) -> FirstOutcomes:
        early = own.rollouts < self.measured
        answers = own.answers + jnp.where(early, heard.answers, 0)
        return FirstOutcomes(answers, own.right + jnp.where(early, heard.right, 0), own.rollouts + 1)

    def restarts(self, before: FirstOutcomes, own: FirstOutcomes) -> Bool[Array, ""]:
        return own.rollouts == self.measured

    def leaves_out(self, own: FirstOutcomes, key: Key[Array, ""], environment: Any) -> Bool[Array, " number"]:
        never, always = own.right <= 0, own.right >= own.answers
        out = {"solved": never, "unsolved": ~never, "differing": never | always}[self.kept]
        return out & (own.answers > 0) & (own.rollouts >= self.measured)
