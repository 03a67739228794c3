"""A*-PO: regression of the policy on each prompt's optimal value, estimated from the first policy."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.agents.language.grpo import GRPO, LossInputs, Scores
from forage.core.ports import Metrics
from forage.core.ports.needs import Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Spec
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import sequence_sum
from forage_papers.ops.tokens.regression import advantage_regression, optimal_value


class AStarPO(GRPO):
    """A*-PO: least squares of the policy's log-ratio to the advantage over the optimal value of the prompt.

        V(prompt) = value_temperature log mean exp(r / value_temperature)      over answers of the first policy
        loss      = (ratio_temperature (log pi - log pi_first) - (r - V))^2    of each answer of the policy

    V does not depend on the policy, so it is estimated once for each prompt: beforehand, where prompts are a list, as
    the authors do; here, where each prompt is a new one, from the first `value_answers` answers of its group, which the
    first policy writes (behaviour `reference-policy`) and which are not learned from. The others are the policy's own:
    one to a prompt. Rewards are 0 or 1; what the first policy never solves has V = 0.

    Brantley, Chen, Gao, Lee, Sun, Zhan, Zhang (2025), "Accelerating RL for LLM Reasoning with Optimal Advantage
    Regression", arXiv 2505.20686, as in the authors' `scripts/apo_gsm8k.sh` (ZhaolinGao/A-PO): temperatures 0.5 and
    1e-3, 8 answers for V, 2 steps of each rollout. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train a-star-po text:addition --env.level 2"
    corrects_sampler: ClassVar[bool] = False
    replays: ClassVar[bool] = False
    usual_behaviour: ClassVar[str] = "reference-policy"
    needed_behaviour: ClassVar[str] = "reference-policy"
    ranges: ClassVar[Ranges] = {
        **GRPO.ranges,
        "value_temperature": Range(0, above=True),
        "ratio_temperature": Range(0, above=True),
        "value_answers": Range(1),
    }
    needs: ClassVar[Needs] = Needs(single_turn=True)
    unused: ClassVar[Unused] = {"advantage divergence entropy_share": "A*-PO has a loss of whole answers"}

    value_temperature: float = 0.5  # how soft the best of the first policy's answers is; smaller is nearer the maximum
    ratio_temperature: float = 1e-3  # how much reward a change of the log-probability stands for; smaller moves more
    value_answers: int = equinox.field(static=True, default=8)  # answers of the first policy to each prompt
    group_size: int = equinox.field(static=True, default=9)
    num_envs: int = equinox.field(static=True, default=72)
    minibatches: int = equinox.field(static=True, default=2)
    advantage: str = equinox.field(static=True, default="none")

    @property
    def referred(self) -> bool:
        return True

    @property
    def firsts(self) -> int:
        return self.value_answers

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.value_answers >= self.group_size:
            raise ForageError(
                f"Of {self.group_size} answers to a prompt {self.value_answers} are of the first policy, and none is "
                f"left to learn from; give a group_size above value_answers."
            )

    def answer_advantages(
        self,
        reward: Float[Array, "group answer"],
        outcome: Float[Array, "group answer"] | None = None,
        there: Bool[Array, "group answer"] | None = None,
    ) -> tuple[Float[Array, "group answer"], Array]:
        value = optimal_value(reward[:, : self.value_answers], self.value_temperature)
        weight = jnp.broadcast_to(jnp.arange(self.group_size) >= self.value_answers, reward.shape)
        return reward - value[:, None], weight.astype(reward.dtype)

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        whole, first = sequence_sum(scores.now, scores.mask), sequence_sum(lesson.reference, scores.mask)
        temperature: Any = self.ratio_temperature
        error = advantage_regression(whole, first, lesson.advantage[:, 0], jnp.zeros_like(whole), temperature)
        return jnp.sum(lesson.weight * error) / jnp.maximum(jnp.sum(lesson.weight), 1), {}
