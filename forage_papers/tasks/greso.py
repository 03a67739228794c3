"""GRESO: skips problems with uniform groups, with a probability that grows with each such group."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.core.ranges import Range, Ranges
from forage_papers.tasks.numbered import NumberedProblems, ProblemOutcomes


class History(NamedTuple):
    """The number of successive uninformative groups of each problem, and the base probabilities of playing them."""

    easy: Int[Array, " number"]  # groups in a row, up to the newest, that were all right
    hard: Int[Array, " number"]  # that were all wrong
    easy_base: Float[Array, ""]  # p below
    hard_base: Float[Array, ""]
    epoch: Float[Array, ""]  # the share of an epoch that is over, up to 1


class Greso(NumberedProblems):
    """Problems in epochs; some uninformative ones are skipped before they are played.

    A problem whose newest z groups were all right, or all wrong, is skipped in an epoch with probability

        1 - max(p^z, floor)

    with one p for the easy and another for the hard. After each rollout of the second epoch on, p falls by `step`
    where at least the target share of the groups was so, and rises by `step` elsewhere, between 0.05 and 0.95. Of the
    target share `alike` of all groups a third is easy, and the rest hard, as hard ones change more.

    Source: Zheng, Zhou, Bartoldson, Kailkhura, Lai, Zhao, Chen (2025), "Act Only When It Pays: Efficient Reinforcement
    Learning for LLM Reasoning via Selective Rollouts", arXiv 2506.02177, of which the abstract was read, and the
    authors' program, github.com/Infini-AI-Lab/GRESO (`presampling_selector.py`, `ray_trainer.py`), which the formulas
    and the defaults are from. There rewards of at least 0.98 are right and those up to 0.11 wrong, as are scores here;
    and batches are filled up until enough groups differ, whereas a rollout here has a fixed size.
    """

    example: ClassVar[str] = "forage train grpo text:addition --env.problems 1000 --env.level 0-3 --tasks greso"
    ranges: ClassVar[Ranges] = {
        "base": Range(0.05, 0.95),
        "alike": Range(0, 1),
        "step": Range(0, 1),
        "floor": Range(0, 1),
    }
    epochs: ClassVar[bool] = True

    base: float = 0.5  # p at the beginning
    alike: float = 0.25  # target share of groups that are all alike
    step: float = 0.01  # by which p changes after a rollout
    floor: float = 0.01  # a problem is never played with a smaller probability

    def first(self, environment: Any) -> History:
        none = jnp.zeros(environment.num_starts, jnp.int32)
        return History(none, none, jnp.float32(self.base), jnp.float32(self.base), jnp.float32(0))

    def update_state(self, own: History, heard: ProblemOutcomes, environment: Any) -> History:
        easy, hard = heard.met & (heard.least >= 0.98), heard.met & (heard.most <= 0.11)
        played = jnp.maximum(heard.met.sum(), 1)

        def move_share(p: Float[Array, ""], share: Float[Array, ""], target: float) -> Float[Array, ""]:
            new = jnp.clip(jnp.where(share >= target, p - self.step, p + self.step), 0.05, 0.95)
            return jnp.where(own.epoch >= 1, new, p)

        return History(
            jnp.where(heard.met, jnp.where(easy, own.easy + 1, 0), own.easy),
            jnp.where(heard.met, jnp.where(hard, own.hard + 1, 0), own.hard),
            move_share(own.easy_base, easy.sum() / played, self.alike / 3),
            move_share(own.hard_base, hard.sum() / played, self.alike * 2 / 3),
            jnp.minimum(own.epoch + environment.slot / environment.num_starts, 1),
        )

    def skip(self, own: History) -> Float[Array, " number"]:
        """Return each problem's probability of being skipped in an epoch that begins now."""
        easy, hard = (
            1 - jnp.maximum(p**count, self.floor) for p, count in ((own.easy_base, own.easy), (own.hard_base, own.hard))
        )
        return jnp.where(own.easy > 0, easy, hard)

    def leaves_out(self, own: History, key: Key[Array, ""], environment: Any) -> Bool[Array, " number"]:
        return jax.random.uniform(key, own.easy.shape) < self.skip(own)
