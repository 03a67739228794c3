"""Shared base of agents of trees: rollouts of answers and of branches that continue prefixes of earlier answers.

The starts `branches` (`forage/starts/branches.py`) begin a rollout's first answers with prompts, G to each, and those
of step j with the j-th prefix of an earlier one. What the value of a prefix is follows from the answers that go on from
it; which answers are learned from, and with which advantage at each token, is the method's own choice.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import LanguageState
from forage.agents.language.grpo import GRPO, LossInputs, outcomes
from forage.core.ports import Branching, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges, check_minibatches
from forage.core.types import AGENT, Batch, Clock, Spec
from forage.ops.tokens.advantages import all_alike


class Tree(NamedTuple):
    """The answers of a rollout: for each prompt one group from its beginning, and the groups of branches."""

    reward: Float[Array, "depth prompt answer"]  # depth 0: of answers that begin with the prompt
    length: Int[Array, "depth prompt answer"]  # tokens of the prefix that an answer goes on from; 0 at depth 0
    wrote: Bool[Array, "depth prompt answer new"]  # tokens that were written after the prefix
    outcome: Float[Array, "depth prompt answer"] | None = None  # how right each answer is; none: as it is paid


class TreeAgent(GRPO):
    """GRPO's updates of a language model, from answers that branch off one another."""

    usual_starts: ClassVar[str] = "branches"
    corrects_sampler: ClassVar[bool] = False
    whole_episodes: ClassVar[bool] = False  # a rollout has several answers of each environment
    needs_start_ids: ClassVar[bool] = True
    each: ClassVar[bool] = False  # every answer is branched from, rather than the first of each group
    ranges: ClassVar[Ranges] = {**GRPO.ranges, "rollout_length": Range(2)}
    needs: ClassVar[Needs] = Needs(single_turn=True)

    rollout_length: int = equinox.field(static=True, default=5)  # answers of each environment in a rollout: one begins
    # with the prompt, the others with prefixes

    @property
    def branching(self) -> Branching:
        return Branching(self.rollout_length - 1, self.each)

    @property
    def starts_options(self) -> dict[str, Any]:
        return {"prefixes": self.rollout_length - 1, "each": self.each}

    def check(self, spec: Spec) -> None:
        super().check(dataclasses.replace(spec, horizon=None))
        check_minibatches(self, self.learning_rows, "answers of a rollout")

    @property
    def learning_rows(self) -> int:
        """Return the number of answers of a rollout to learn from."""
        return self.num_envs * self.rollout_length

    @abstractmethod
    def credit(self, tree: Tree) -> tuple[Float[Array, "depth prompt answer #new"], Array]:
        """Return the advantage at each token, and the weight of each answer: 0 for those left out."""

    def select_answers(self, lesson: LossInputs) -> LossInputs:
        """Return the answers to learn from, with leaves `depth prompt answer ...`, as rows."""
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), lesson)

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " env"]]:
        shape = (self.rollout_length, -1, self.group_size)
        rows = jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), self.rows(batch))
        experience, mark = batch.experience, batch.experience.start_id
        right = outcomes(jax.tree.map(lambda x: x[None], experience))  # each step is an episode
        tree = Tree(experience.reward.reshape(shape), mark.length.reshape(shape), rows.wrote, right.reshape(shape))
        advantage, weight = self.credit(tree)
        # After a failure a rollout may hold the end of one tree and the beginning of another.
        whole = (mark.depth == jnp.arange(self.rollout_length)[:, None]).all()
        own = (experience.source == AGENT).reshape(shape)
        width = jnp.broadcast_to(advantage, (*tree.reward.shape, advantage.shape[-1]))
        old = rows.sampled
        lesson = self.select_answers(LossInputs(rows, width, weight * own * whole, old, jnp.zeros_like(old)))
        lesson = self.with_log_probabilities(state, lesson)
        state, metrics = self.descend(state, lesson, self.rate(clock), key)
        value = tree.reward.mean(-1)
        said = {
            "reward": value[0].mean(),
            "prefix_value": value[1:].mean(),
            "prefix_length": tree.length[1:].mean(),
            "zero_variance": all_alike(right.reshape(-1, self.group_size)).mean(),
            "whole": whole.astype(jnp.float32),
        }
        return state, metrics | said, jnp.abs(advantage).mean((0, 3)).reshape(-1)


def steps_of(length: Int[Array, " prefix"], time: int) -> Int[Array, " time"]:
    """Return the step of each token of an answer: the number of prefixes that end before it.

    `length`: tokens of the prefixes, the shortest first.
    """
    return (length[:, None] <= jnp.arange(time)).sum(0)
