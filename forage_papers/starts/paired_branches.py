"""Answers that continue the first tokens of a right and of a wrong answer of their group."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from forage.core.ports import Branching, Environment
from forage.core.types import ForageError, Spec
from forage_papers.starts.branches import Branches, BranchesState


class PairedBranches(Branches):
    """Branches of two answers of each group: its first right one, of a reward above 0, and its first wrong one.

    In the first half of the later steps the group goes on from prefixes of the right answer, in the second half from
    those of the wrong one. Where a group has no such answer, that half has no tokens.

    Source: Zheng and others (2025), "First Return, Entropy-Eliciting Explore", arXiv 2507.07017, as in the authors'
    program (Zheng0428/FR3E: verl/trainer/ppo/ray_trainer.py, with `srpo_correct_sample_max_num` and
    `srpo_wrong_sample_max_num` of 1 and 4 prefixes of each in `run_srpo_v6_adv.sh`).
    """

    example: ClassVar[str] = "see fr3e, which takes them with --stems 2 --rollout-length 9"

    def __check_init__(self):
        if self.prefixes % (2 * self.times):
            raise ForageError(
                f"{self.prefixes} prefixes of two answers cannot be used {self.times} times each; give a multiple of "
                f"{2 * self.times}."
            )
        if self.each:
            raise ForageError("PairedBranches go on from two answers of a group, and not from each; leave each out.")

    @property
    def branching(self) -> Branching:
        return Branching(self.prefixes, False, stems=2)

    @property
    def per_stem(self) -> int:
        return self.prefixes // 2

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> BranchesState:
        state = super().init(key, environment, spec, num_envs)
        return state._replace(stem=jnp.full((num_envs // self.size, 2), -1, jnp.int32))

    def stem(self, state: BranchesState, place: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
        step = jnp.maximum(state.depth - 1, 0)
        stem = state.stem[place // self.size, step // self.per_stem]
        there = (state.depth > 0) & (stem >= 0)
        return jnp.maximum(stem, 0), jnp.where(there, step % self.per_stem, -1)

    def on_step(
        self, state: BranchesState, action: Int[Array, "env time"], policy_info: Any, reward: Float[Array, " env"]
    ) -> BranchesState:
        after = super().on_step(state, action, policy_info, reward)
        found = first_right_and_wrong(reward.reshape(-1, self.size))
        return after._replace(stem=jnp.where(state.depth == 0, found, state.stem))


def first_right_and_wrong(reward: Float[Array, "group answer"]) -> Int[Array, "group 2"]:
    """Return the number, over all groups, of the first answer of each with a reward above 0, and without; -1: none."""
    kinds = jnp.stack([reward > 0, reward <= 0], 1)
    place = jnp.arange(len(reward))[:, None] * reward.shape[1] + jnp.argmax(kinds, 2)
    return jnp.where(kinds.any(2), place, -1).astype(jnp.int32)
