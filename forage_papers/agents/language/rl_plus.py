"""RL-PLUS: a solution by an expert stands among the answers of each group."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.agents.language.grpo import GRPO, LossInputs, Scores
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices, Needs, Unused
from forage.core.ranges import Range, Ranges, check_minibatches
from forage.core.types import Batch, Spec
from forage.nn.transformer import Transformer
from forage.ops.rows import concatenate_rows
from forage.ops.tokens.masks import MEANS, token_mean
from forage_papers.ops.tokens.off_policy import external


class WithReferences(GRPO):
    """GRPO with a solution by an expert behind the answers of each group, where the prompt has one."""

    corrects_sampler: ClassVar[bool] = False
    replays: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs(single_turn=True, instead="use sft there")
    choices: ClassVar[Choices] = {"aggregation": MEANS}

    def check(self, spec: Spec) -> None:
        super().check(spec)
        check_minibatches(self, self.num_envs // self.group_size * (self.group_size + 1), "answers and references")

    def collect_answers(self, batch: Batch) -> LossInputs:
        """Return the answers of a rollout, and behind them the reference of each group."""
        lesson, experience = super().collect_answers(batch), batch.experience
        first = jax.tree.map(lambda x: x[:, :: self.group_size], experience)
        policy_info = jax.tree.map(jnp.zeros_like, first.policy_info)
        worked = first._replace(action=first.observation["reference"], policy_info=policy_info)
        extra = super().collect_answers(batch._replace(experience=worked))
        extra = extra._replace(weight=jnp.where(extra.rows.wrote.any(1), 1.0, 0.0), more=jnp.ones_like(extra.weight))
        lesson = lesson._replace(more=jnp.zeros_like(lesson.weight))
        return concatenate_rows(lesson, extra)

    def split_rows(self, lesson: LossInputs, reward: Float[Array, "group answer"]) -> tuple[LossInputs, LossInputs]:
        """Return the own answers of a lesson, and its references."""
        own, extra = slice(0, reward.size), slice(reward.size, None)
        return jax.tree.map(lambda x: x[own], lesson), jax.tree.map(lambda x: x[extra], lesson)


class RLPlus(WithReferences):
    """RL-PLUS: GRPO with the reference as one more answer of each group, written by a policy of unknown probabilities.

        A      = (1 - mean of the group's own rewards) / (their deviation, or 1 where it is 0, + 1e-6)
        loss_t = -2 pi / (old + (old + 1) / 2) (1 - pi)^focus A        at each token of the reference, which is right

    The denominator is that of multiple importance sampling from the old policy and an estimate of the writer's; the
    focus turns to tokens that are right and improbable. A prompt without a reference has the group's answers alone.

    Dong et al. (2025), "RL-PLUS: Countering Capability Boundary Collapse of LLMs in Reinforcement Learning with Hybrid-
    policy Optimization", arXiv 2508.00222, as in the authors' `rlplus_core_alg.py` (`ops/tokens/off_policy.external`),
    whose focus of 0.5 is the default; mean and deviation are those of own answers there, too, and that a deviation of 0
    counts as 1 is LUFFY's `compute_grpo_outcome_advantage_split`, which mixes such answers in, too. The paper's own
    pages could not be looked up. Another `advantage` is for own answers alone.
    """

    example: ClassVar[str] = "forage train rl-plus text:countdown"
    ranges: ClassVar[Ranges] = {**WithReferences.ranges, "focus": Range(0), "share": Range(0)}
    unused: ClassVar[Unused] = {"kl_placement": "RL-PLUS takes means of losses"}

    focus: float = 0.5  # how much more improbable tokens of the reference count; 0: all alike
    share: float = 1.0  # weight of the references beside own answers; 0 is GRPO
    aggregation: str = equinox.field(static=True, default="token-mean")

    def assign_credit(self, batch: Batch, lesson: LossInputs, reward: Float[Array, "group answer"]) -> LossInputs:
        own, extra = self.split_rows(lesson, reward)
        own = super().assign_credit(batch, own, reward)
        deviation = jnp.std(reward, axis=1, ddof=1)
        advantage = (1 - reward.mean(1)) / (jnp.where(deviation > 0, deviation, 1.0) + 1e-6)
        extra = extra._replace(advantage=advantage[:, None], weight=extra.weight * self.share)
        return concatenate_rows(own, extra)

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        given, now, mask = lesson.more[:, None] > 0, scores.now, scores.mask
        own = self.token_losses(scores, lesson.advantage)
        each = jnp.where(given, external(now, scores.old, lesson.advantage, mask, focus=self.focus), own)
        return self.aggregate_loss(each, lesson, mask), {
            "reference_probability": jnp.exp(token_mean(jax.lax.stop_gradient(now), mask & given))
        }
