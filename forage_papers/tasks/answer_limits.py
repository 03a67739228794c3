"""Curricula of the longest answer: it falls and rises (SIRI), or rises with the length of prompts (FastCuRL)."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree

from forage.core.ports import RolloutReport, Tasks
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, ForageError
from forage_papers.tasks.numbered import NumberedProblems, ProblemOutcomes, task
from forage_papers.tasks.phases import check_limits

SETS = ("all", "short", "long")


class SIRI(Tasks):
    """The longest answer falls and rises again: in rollout t, of `cycle` rollouts from one maximum to the next,

        lowest + (highest - lowest) (1 + cos(2 pi t / cycle)) / 2        tokens, rounded

    While it falls, answers are cut before their end and fail, so that the policy learns to say the same in fewer
    tokens; while it rises, the policy explores with the room that it has gained. Several cycles make a run.

    Source: Wen, Bai, Li, Tang (2025), "SIRI: Scaling Iterative Reinforcement Learning with Interleaved Compression",
    arXiv 2509.25176, of which the abstract was read, and the authors' model cards, which name the cosine; there is no
    public program. The period and the ends of the paper could not be looked up: `cycle` is ours, and a `highest` of 0
    is the environment's longest. The agent is GRPO with DAPO's bounds and without a divergence there: `dapo`.
    """

    example: ClassVar[str] = "forage train dapo text:countdown --env.room true --tasks siri --tasks.lowest 16"
    own_choices: ClassVar[str] = "the period `cycle`, and both ends"
    ranges: ClassVar[Ranges] = {"lowest": Range(1), "highest": Range(0), "cycle": Range(2)}
    on_host: ClassVar[bool] = True
    adapts: ClassVar[bool] = True

    lowest: int = equinox.field(static=True)  # tokens of the longest answer at the end of each compression
    highest: int = equinox.field(static=True, default=0)  # tokens of it at the beginning and after each cycle; 0: all
    cycle: int = equinox.field(static=True, default=40)  # rollouts of a compression and the expansion after it

    def check(self, environment: Any) -> None:
        check_limits(type(self).__name__, environment, "response", [self.lowest, self.highest or self.lowest])
        if self.highest and self.lowest > self.highest:
            raise ForageError(f"SIRI goes from {self.highest} tokens down to {self.lowest}; give a smaller lowest.")

    def init(self, key: Key[Array, ""], environment: Any) -> Int[Array, ""]:
        self.check(environment)
        return jnp.int32(0)  # rollouts so far

    def longest(self, rollouts: Int[Array, ""], most: Int[Array, ""]) -> Int[Array, ""]:
        """Return the number of tokens of the longest answer in the next rollout."""
        highest = self.highest or most
        share = (1 + jnp.cos(2 * jnp.pi * rollouts / self.cycle)) / 2
        return jnp.round(self.lowest + (highest - self.lowest) * share).astype(jnp.int32)

    def next(self, state: Int[Array, ""], environment: Any, key: Key[Array, ""]) -> PyTree[Array | None]:
        return task(environment, None, limits={"response": self.longest(state, environment.response)})

    def report(self, state: Int[Array, ""], rollout: Experience, review: RolloutReport) -> Int[Array, ""]:
        return state + 1


class FastCuRL(NumberedProblems):
    """Stages, each with a set of problems by the length of their prompts, and with a longest answer.

    Short are the problems whose prompts are not longer than the mean of all, long the others. In each stage, problems
    of its set come in epochs. By default the stages are the authors': short problems with a third of the longest
    answer, all with two thirds, long ones with the whole and all with two thirds again, for 160, 590, 230 and 580 of
    1,560 rollouts. A prompt is measured in tokens here, and in characters there.

    Source: Song, Zheng, Li, Yang, Luo, Pan, Zhang (2025), "FastCuRL: Curriculum Reinforcement Learning with Stage-wise
    Context Scaling for Efficient Training R1-like Reasoning Models", arXiv 2503.17287, and the authors' program,
    github.com/nick7nlp/FastCuRL: README and scripts have stages, sets and 8K, 16K, 24K and 16K tokens, and of its data
    L1 (24,976 problems of at most 317 characters) and L3 (15,339 others) are parted at their mean, 317.2. There the
    answers to a problem are 8 in the first three stages and 16 in the last.
    """

    example: ClassVar[str] = "forage train grpo text:sorting --env.problems 1000 --env.room true --tasks fastcurl"
    ranges: ClassVar[Ranges] = {"shares": Range(0, 1, above=True), "rollouts": Range(1)}
    epochs: ClassVar[bool] = True
    reads_prompts: ClassVar[bool] = True

    sets: tuple[str, ...] = equinox.field(
        static=True, converter=tuple, default=("short", "all", "long", "all")
    )  # the problems of each stage: short, long or all
    shares: tuple[float, ...] = equinox.field(
        static=True, converter=tuple, default=(1 / 3, 2 / 3, 1.0, 2 / 3)
    )  # longest answer of each stage, as a share of the environment's
    rollouts: tuple[int, ...] = equinox.field(
        static=True, converter=tuple, default=(160, 590, 230, 580)
    )  # rollouts of each stage; the last one goes on

    def __check_init__(self):
        if len({len(self.sets), len(self.shares), len(self.rollouts)}) > 1 or not self.sets:
            raise ForageError(
                f"FastCuRL has {len(self.sets)} sets, {len(self.shares)} shares and {len(self.rollouts)} numbers of "
                f"rollouts; give one of each for every stage."
            )
        if unknown := [one for one in self.sets if one not in SETS]:
            raise ForageError(f"FastCuRL has problems that are {', '.join(SETS)}, and none that are {unknown[0]}.")

    def check(self, environment: Any) -> None:
        super().check(environment)
        check_limits(type(self).__name__, environment, "response", [])
        if np.ptp(np.asarray(environment.lengths)) == 0 and set(self.sets) != {"all"}:
            raise ForageError(
                f"All prompts of {environment.spec.name} have the same length, and FastCuRL parts problems by it; give "
                f"several levels, as in --env.level 0-3."
            )

    def first(self, environment: Any) -> tuple[Int[Array, ""], Int[Array, ""]]:
        return jnp.int32(0), jnp.int32(environment.response)  # rollouts so far, and the longest answer

    def update_state(self, own: Any, heard: ProblemOutcomes, environment: Any) -> tuple[Int[Array, ""], Int[Array, ""]]:
        return own[0] + 1, own[1]

    def stage(self, rollouts: Int[Array, ""]) -> Int[Array, ""]:
        """Return the index of the stage after these rollouts."""
        return (rollouts >= jnp.cumsum(jnp.array(self.rollouts))[:-1]).sum()

    def restarts(self, before: Any, own: Any) -> Bool[Array, ""]:
        return self.stage(before[0]) != self.stage(own[0])

    def limits(self, own: Any) -> dict[str, Int[Array, ""]]:
        share = jnp.array(self.shares)[self.stage(own[0])]
        return {"response": jnp.maximum(jnp.round(share * own[1]), 1).astype(jnp.int32)}

    def leaves_out(self, own: Any, key: Key[Array, ""], environment: Any) -> Bool[Array, " number"]:
        lengths = jnp.asarray(environment.lengths)
        long = lengths > lengths.mean()
        kept = jnp.stack([long | True, ~long, long])
        wanted = jnp.array([SETS.index(one) for one in self.sets])
        return ~kept[wanted[self.stage(own[0])]]
