"""KDRL: rewards and distillation in one loss, with a weight of the teacher that falls over the run."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.language.base import LanguageState
from forage.agents.language.distill import Distill
from forage.agents.language.grpo import LossInputs, Scores, outcomes
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices, Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import token_mean

MASKS = ("none", "response", "group")
"""Rules for the answers without distillation: none, right ones, or all of a group with a right one."""


class KDRL(Distill):
    """GRPO and the divergence from a teacher, whose weight falls, on all answers or on wrong ones.

        weight_n = max(weight - decay n, final_weight)                    after n rollouts
        loss     = GRPO's loss + weight_n mean over tokens of m_i KL(pi || teacher)

    The divergence is estimated by k2, whose gradient is right. m_i is 1, or with `masked` response 0 for right answers,
    with `masked` group 0 for all answers of a group with a right one; right is what the verifier finds above 1/2.

    Xu et al. (2025), "KDRL: Post-Training Reasoning LLMs via Unified Knowledge Distillation and Reinforcement
    Learning", arXiv 2506.02208: estimator, weights of 5e-3 falling to 1e-3 by 5e-5 a step and the two masks are those
    of its sections 3.3 and 3.4 as a public re-implementation quotes them. Masked answers stay in the number of tokens
    that the mean divides by, which it does not say. The paper's own pages could not be looked up. `distill` is the same
    with a weight that stays.
    """

    example: ClassVar[str] = "forage train kdrl text:addition --env.level 2 --teacher runs/teacher --masked response"
    ranges: ClassVar[Ranges] = {
        **Distill.ranges,
        "weight": Range(0, above=True),
        "final_weight": Range(0),
        "decay": Range(0),
    }
    needs: ClassVar[Needs] = Needs(single_turn=True)
    choices: ClassVar[Choices] = {"masked": MASKS}
    unused: ClassVar[Unused] = {
        "divergence": "KDRL weighs its teacher by weight and final_weight",
        "kl_placement": "A teacher counts in the loss",
    }

    weight: float = 5e-3  # weight of the teacher at first
    final_weight: float = 1e-3  # weight that it does not fall below
    decay: float = 5e-5  # by how much the weight falls with each rollout; 0: it stays
    divergence: float = equinox.field(static=True, default=1.0)
    masked: str = equinox.field(static=True, default="none")  # answers without distillation: none, response (right
    # ones) or group (all of a group with a right one)

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " env"]]:
        rollouts = jnp.maximum(clock.steps // (self.num_envs * self.rollout_length) - 1, 0)
        now = jnp.maximum(self.weight - self.decay * rollouts, self.final_weight)
        teaching = dataclasses.replace(self, weight=now)
        state, metrics, size = Distill.learn(teaching, state, batch, clock, key)
        return state, metrics | {"teacher_weight": now}, size

    def collect_answers(self, batch: Batch) -> LossInputs:
        """Return the answers of a rollout, with their weights in the distillation loss as `more`."""
        lesson = super().collect_answers(batch)
        counts = teacher_mask((outcomes(batch.experience) > 0.5).reshape(-1, self.group_size), self.masked)
        return lesson._replace(more=counts.reshape(-1))

    def divergences(
        self, network: Transformer, state: LanguageState, lesson: LossInputs, scores: Scores
    ) -> Float[Array, "row new"]:
        apart = super().divergences(network, state, lesson, scores)
        return self.weight * lesson.more[:, None] * apart

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        loss, metrics = super().surrogate(network, lesson, scores)
        share = token_mean(jnp.broadcast_to(lesson.more[:, None], scores.mask.shape), scores.mask)
        return loss, metrics | {"taught": share}


def teacher_mask(right: Array, masked: str) -> Float[Array, "group answer"]:
    """Return the weight of each answer in the distillation loss, 0 or 1, by a name of `MASKS`."""
    if masked == "response":
        return 1.0 - right
    if masked == "group":
        return jnp.broadcast_to(1.0 - right.any(1, keepdims=True), right.shape)
    return jnp.ones(right.shape)
