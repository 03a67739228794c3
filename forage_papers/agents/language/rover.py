"""ROVER: policy and value in one model, trained on the values of the uniform policy over tokens."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
from jaxtyping import Array, Float

from forage.agents.language.base import AnswerRows, LanguageState, warmth
from forage.agents.language.grpo import GRPO, LossInputs, Scores
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices, Unused
from forage.core.ranges import Range, Ranges
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import MEANS, aggregate
from forage.ops.tokens.supervised import rover


class ROVER(GRPO):
    """ROVER: random policy valuation, by a squared error at each token (`ops/tokens/supervised.rover`).

        Q_t  = value_temperature (log pi(token_t) - log old(token_t))
        loss = (Q_t - (A + value_temperature mean over the vocabulary of (log pi - log old) at t + 1))^2

    with A = r - mean of the group. Sampling from pi is sampling in proportion to exp(Q). There is neither a ratio nor a
    clip. Vocabulary: all that the model has.

    He et al. (2025), "Random Policy Valuation is Enough for LLM Reasoning with Verifiable Rewards", arXiv 2509.24981,
    as in the authors' `Countdown` (tinnerhrhe/ROVER): temperature 1, 4 steps of each rollout and a mean over tokens are
    those of `train_rover.sh` and `dp_actor.py`; it has 5 answers to a prompt, and 8 in `rover_qwen3_8b.sh`. The paper's
    own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train rover text:countdown"
    corrects_sampler: ClassVar[bool] = False
    replays: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {**GRPO.ranges, "value_temperature": Range(0, above=True)}
    choices: ClassVar[Choices] = {"aggregation": MEANS}
    unused: ClassVar[Unused] = {
        "top_k top_p min_p": "ROVER takes means over the whole vocabulary",
        "loss clip_low clip_high ratio_cap": "ROVER has a loss of its own, without a clip",
    }

    value_temperature: float = 1.0  # reward that a nat of log-probability stands for; smaller moves the policy more
    advantage: str = equinox.field(static=True, default="dr-grpo")
    aggregation: str = equinox.field(static=True, default="token-mean")
    minibatches: int = equinox.field(static=True, default=4)

    def temper_logits(self, network: Transformer, rows: AnswerRows) -> Float[Array, "row new vocabulary"]:
        """Return the logits over the temperature of each answer."""
        return self.logits(network, rows, self.shared_prefix(rows)) / warmth(rows)

    def with_log_probabilities(self, state: LanguageState, lesson: LossInputs) -> LossInputs:
        lesson = super().with_log_probabilities(state, lesson)
        old = self.map_rows(lambda rows: self.temper_logits(state.network, rows), lesson.rows)
        return lesson._replace(more=old)

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        rows = lesson.rows
        token = rows.tokens[:, -rows.wrote.shape[1] :]
        logits = self.temper_logits(network, rows)
        loss = rover(logits, lesson.more, token, lesson.advantage, scores.mask, self.value_temperature)
        error = jax.lax.stop_gradient(aggregate(loss, scores.mask, self.aggregation))
        return self.aggregate_loss(loss, lesson, scores.mask), {"error": error}
