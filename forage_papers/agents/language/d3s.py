"""D3S: GRPO on the most informative answers and tokens, with a share that grows over the run."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import LanguageState
from forage.agents.language.grpo import GRPO, LossInputs
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock
from forage.nn.transformer import Transformer
from forage_papers.ops.tokens.down_sampling import varied_mask, weightiest


class D3S(GRPO):
    """GRPO with down-sampling of answers and tokens that begins strict and ends mild.

    Of each group the subset of answers is kept whose advantages have the greatest variance, which bounds the size of
    the policy's gradient; and of all tokens kept those with the greatest |advantage| entropy. The share of both rises
    in a straight line from `answers` and `tokens` at the beginning to 1 at `until`, a share of the run, so that the
    policy does not overfit to few of them. Advantages are those of the whole group.

    Wang, Yang, Tian, Shi, Ma, Liu, Yao, Ding (2025), "Learning More with Less: A Dynamic Dual-Level Down-Sampling
    Framework for Efficient Policy Optimization", arXiv 2509.22115, of which the abstract was read; there is no public
    program. The shares, the form of the schedule and its end could not be looked up and are ours, and the variant that
    keeps answers across groups is left out.
    """

    example: ClassVar[str] = "forage train d3s text:addition --env.level 2"
    own_choices: ClassVar[str] = "both shares, the form of the schedule and its end"
    corrects_sampler: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {
        **GRPO.ranges,
        "answers": Range(0, 1, above=True),
        "tokens": Range(0, 1, above=True),
        "until": Range(0, 1, above=True),
    }

    answers: float = 0.5  # share of a group's answers that are learned from at the beginning
    tokens: float = 0.5  # share of their tokens at the beginning
    until: float = 0.5  # share of the run after which all are learned from

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " env"]]:
        done = jnp.minimum(clock.fraction / self.until, 1.0)
        shares: dict[str, Any] = {
            name: getattr(self, name) + (1 - getattr(self, name)) * done for name in ("answers", "tokens")
        }
        return GRPO.learn(dataclasses.replace(self, **shares), state, batch, clock, key)

    def answer_advantages(
        self,
        reward: Float[Array, "group answer"],
        outcome: Float[Array, "group answer"] | None = None,
        there: Bool[Array, "group answer"] | None = None,
    ) -> tuple[Float[Array, "group answer"], Array]:
        advantage, weight = super().answer_advantages(reward, outcome, there)
        return advantage, weight * varied_mask(advantage, self.answers)

    def objective(
        self, network: Transformer, state: LanguageState, lesson: LossInputs, first: Bool[Array, ""]
    ) -> tuple[Float[Array, ""], Metrics]:
        rows = lesson.rows
        _, entropy = self.score_tokens(jax.lax.stop_gradient(network), state, rows, self.shared_prefix(rows))
        counts = rows.wrote & (lesson.weight > 0)[:, None]
        wrote = weightiest(jnp.abs(lesson.advantage) * entropy, counts, self.tokens)
        return super().objective(network, state, lesson._replace(rows=rows._replace(wrote=wrote)), first)
