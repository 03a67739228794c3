"""GHPO: an unsolved problem comes again, each time with more of its solution in the prompt."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError
from forage_papers.tasks.numbered import NumberedProblems, ProblemOutcomes


class Hints(NumberedProblems):
    """Problems in epochs, without a hint at first; if a whole group fails, its problem comes again with hints.

    In the following rollouts it comes with the first `share` of its reference solution, then with two shares, up to
    `stages` of them, until some answer is right or there are no more. Solved problems come without a hint again in the
    next epoch. The policy goes on from the hint, and only what it writes itself is learned from. With `--memory pool
    --memory.newest true` and as many `rounds` as it has, hints come within an update, and the group with a hint takes
    the place of the one without, as in the paper: four rounds are enough for three stages.

    Source: Liu, Gong, Fu, Liu, Chen, Hu, Zhang, Li, Zhang, Tu (2025), "GHPO: Adaptive Guidance for Stable and Efficient
    LLM Reinforcement Learning", arXiv 2507.10628, of which the abstract was read, and the authors' program,
    github.com/hkgc-1/GHPO (`ghpo_trainer.py`), which the shares of 25, 50 and 75 % are from. There a sentence
    introduces the hint, after which the policy writes a whole answer. The phase without hints that may come first, of
    no steps there, is left out.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --env.problems 1000 --env.hints 0.75 --tasks hints"
    ranges: ClassVar[Ranges] = {"share": Range(0, 1, above=True), "stages": Range(1), "rounds": Range(1)}
    epochs: ClassVar[bool] = True

    share: float = 0.25  # part of a solution that is given away at each stage
    rounds: int = equinox.field(static=True, default=1)  # rollouts to an update, as many as `--memory pool` has
    stages: int = equinox.field(static=True, default=3)  # hints that a problem gets, one after the other, at most

    def check(self, environment: Any) -> None:
        super().check(environment)
        check_hints(type(self).__name__, self.share * self.stages, environment)

    def first(self, environment: Any) -> Int[Array, " number"]:
        return jnp.zeros(environment.num_starts, jnp.int32)  # the stage of each problem

    def update_state(
        self, own: Int[Array, " number"], heard: ProblemOutcomes, environment: Any
    ) -> Int[Array, " number"]:
        further = (heard.most <= 0) & (own < self.stages)
        return jnp.where(heard.met, jnp.where(further, own + 1, 0), own).astype(jnp.int32)

    def end_step(self, own: Int[Array, " number"]) -> Int[Array, " number"]:
        return jnp.zeros_like(own)

    def owes(self, own: Int[Array, " number"], environment: Any) -> Int[Array, " number"]:
        return (own > 0).astype(jnp.int32)

    def hint(self, own: Int[Array, " number"], number: Int[Array, ""]) -> Float[Array, ""]:
        return self.share * own[number]


def check_hints(part: str, largest: float, environment: Any) -> None:
    """Raise `ForageError` if the environment does not give hints as large as a part wants them."""
    if largest > environment.hints + 1e-6:
        raise ForageError(
            f"{part} gives away up to {largest:g} of a solution, and {environment.spec.name} at most "
            f"{environment.hints:g}; give it room for that, as in --env.hints {largest:g}."
        )
