"""LOOP: PPO on whole trajectories, each compared with the others of its task, without a critic.

Chen, Cusumano-Towner, Huval, Petrenko, Hamburger, Koltun, Kraehenbuehl (2025), "Reinforcement Learning for Long-Horizon
Interactive LLM Agents", arXiv 2502.01600. K trajectories of one task are drawn with their turns and what tools
answer; the advantage of every token that the policy wrote in trajectory k is

    A_k = R_k - mean of the others' R

and PPO's objective is that of single tokens, each with a ratio of its own, averaged over the tokens of a trajectory and
then over trajectories. Several passes are made over all of them, in random parts, whatever their tasks; of the
model there is one copy, without a reference and a critic (their Algorithm 1, as summaries of the paper give it: its
pages and its program, apple/ml-loop, could not be looked up).

A trajectory stays together: a part of a pass has whole ones, and its mean is over all tokens of all its turns.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import AnswerRows, LanguageState
from forage.agents.language.grpo import GRPO, LossInputs
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import check_minibatches
from forage.core.types import AGENT, Batch, Clock, Spec
from forage.nn.language.generate import SharedPrefix
from forage.nn.transformer import Transformer
from forage.ops.rows import merge_time
from forage.ops.tokens.advantages import all_alike
from forage.ops.tokens.masks import aggregate
from forage_papers.ops.tokens.credit import trajectory_advantage

FIXED = ("advantage", "aggregation", "zero_variance_groups", "divergence", "kl_placement", "overlong_buffer", "best_of")


class LOOP(GRPO):
    """Leave-one-out PPO on whole conversations (Chen et al., 2025, arXiv 2502.01600)."""

    example: ClassVar[str] = "forage train loop text:guess"
    corrects_sampler: ClassVar[bool] = False
    unused: ClassVar[Unused] = {
        "advantage aggregation zero_variance_groups divergence kl_placement overlong_buffer best_of": (
            "LOOP has a loss and advantages of its own",
            "use grpo --advantage rloo",
        )
    }

    advantage: str = equinox.field(static=True, default="rloo")  # reward less the mean of the others: LOOP's own
    aggregation: str = equinox.field(static=True, default="sequence-mean")  # a trajectory's mean over its tokens, and
    # the mean over trajectories: LOOP's own
    epochs: int = equinox.field(static=True, default=2)  # passes over each rollout; the published number is not known
    minibatches: int = equinox.field(static=True, default=2)  # equal parts of whole trajectories in each pass

    def check(self, spec: Spec) -> None:
        super().check(spec)
        check_minibatches(self, self.num_envs, "conversations")

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " env"]]:
        lesson = self.with_log_probabilities(state, self.lesson(batch))
        state, metrics = self.descend(state, lesson, self.rate(clock), key)
        reward, wrote = batch.experience.reward.sum(0), lesson.rows.wrote
        said = {
            "reward": reward.mean(),
            "zero_variance": all_alike(reward.reshape(-1, self.group_size)).mean(),
            "length": wrote.sum() / jnp.maximum(wrote.any(-1).sum(), 1),
        }
        return state, metrics | said, jnp.abs(lesson.advantage).max((1, 2))

    def lesson(self, batch: Batch) -> LossInputs:
        """Return whole trajectories, leaves `env turn ...`, with the advantage of each token."""
        turns, experience = self.rollout_length, batch.experience
        rows = jax.tree.map(lambda x: x.reshape(turns, -1, *x.shape[1:]).swapaxes(0, 1), self.rows(batch))
        new = rows.wrote.shape[-1]
        wrote = rows.wrote.reshape(-1, self.group_size, turns * new)
        paid = jnp.zeros(wrote.shape).at[..., -1].set(experience.reward.sum(0).reshape(-1, self.group_size))
        advantage = trajectory_advantage(paid, wrote).reshape(rows.wrote.shape)
        own = (experience.source == AGENT).T.astype(jnp.float32)
        return LossInputs(rows, advantage, own, rows.sampled, jnp.zeros_like(rows.sampled))

    def in_parts(self, network: Transformer, state: LanguageState, rows: AnswerRows) -> Float[Array, "env turn new"]:
        """Return the log-probability of each token, scored as many trajectories at once as an update learns from."""
        flat = merge_time(rows)
        return super().in_parts(network, state, flat).reshape(rows.sampled.shape)

    def shared_prefix(self, rows: AnswerRows) -> SharedPrefix:
        turns = SharedPrefix(turns=self.rollout_length, by_turn=False)  # whole trajectories, also in minibatches
        return turns if self.rollout_length > 1 else super().shared_prefix(rows)

    def objective(
        self, network: Transformer, state: LanguageState, lesson: LossInputs, first: Bool[Array, ""]
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the loss of some trajectories, with their turns as rows."""
        flat = merge_time(lesson)
        return super().objective(network, state, flat, first)

    def aggregate_loss(
        self, loss: Float[Array, "row new"], lesson: LossInputs, mask: Bool[Array, "row new"]
    ) -> Float[Array, ""]:
        """Return the mean over trajectories of the mean over the tokens of all their turns."""
        loss, mask = (x.reshape(-1, self.rollout_length * mask.shape[1]) for x in (loss * lesson.weight[:, None], mask))
        return aggregate(loss, mask, self.aggregation)

    @classmethod
    def translate_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a stored run: its mean over trajectories was once made by another rule."""
        return super().translate_options(options) | {"aggregation": cls.__dataclass_fields__["aggregation"].default}
