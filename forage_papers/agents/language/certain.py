"""Weights of answers by their entropy, and of a divergence by the certainty of the first policy."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.agents.language.base import AnswerRows, LanguageState, fit_vocabulary
from forage.agents.language.grpo import GRPO, LossInputs, Scores
from forage.core.ports.needs import Choices, Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, ForageError, Spec
from forage.nn.transformer import Transformer
from forage.ops.sampling import Sampling, log_distribution
from forage.ops.tokens.masks import sequence_mean
from forage_papers.ops.tokens.entropy import MEASURES, certainty, sequence_weights

UNITS = ("answers", "tokens")
"""The units that EGSW weighs: whole answers, or tokens at one place of all answers."""


class EGSW(GRPO):
    """Entropy-guided sequence weighting (EGSW): answers of a group count by their advantage and their entropy.

        w_i  = exp((A_i + bonus H_i) / softmax_temperature) / sum_j exp((A_j + bonus H_j) / softmax_temperature)
        loss = GRPO's loss with the advantages w_i A_i

    H_i is the mean entropy of answer i under the policy that wrote it, and the sum is over the answers of its group
    (`ops/tokens/entropy.sequence_weights`); with `weighted` tokens, H_it is that of token t, and the sum is over the
    group's answers that have a token t. As the weights of a group sum to 1, a step is about as large as one of its
    answers would make it.

    Vanlioglu (2025), "Entropy-Guided Sequence Weighting for Efficient Exploration in RL-Based LLM Fine-Tuning", arXiv
    2503.22456, whose formula is quoted at sciencestack.ai; there is no public program. Both numbers are ours, and so is
    that no gradient flows through the weights.
    """

    example: ClassVar[str] = "forage train egsw text:addition --env.level 2"
    own_choices: ClassVar[str] = "both numbers, and that no gradient flows through the weights"
    replays: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {**GRPO.ranges, "bonus": Range(0), "softmax_temperature": Range(0, above=True)}
    needs: ClassVar[Needs] = Needs(single_turn=True)
    choices: ClassVar[Choices] = {"weighted": UNITS}
    unused: ClassVar[Unused] = {"kl_placement": "A divergence of EGSW counts in the loss"}

    bonus: float = 0.3  # worth of a nat of entropy beside the advantage; larger turns to unsure answers
    softmax_temperature: float = 1.0  # how alike the weights are; smaller turns to fewer answers
    weighted: str = equinox.field(static=True, default="answers")  # what is weighed: answers, or tokens at each place

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.loss == "gmpo" and self.weighted == "tokens":
            raise ForageError("The loss gmpo has one advantage for each answer; weigh answers, or take another loss.")

    def with_log_probabilities(self, state: LanguageState, lesson: LossInputs) -> LossInputs:
        """Return the lesson with log-probabilities, and the entropy of each token as `more`."""
        score = lambda rows: self.score_tokens(state.network, state, rows, self.shared_prefix(rows))[1]  # noqa: E731
        return super().with_log_probabilities(state, lesson._replace(more=self.map_rows(score, lesson.rows)))

    def assign_credit(self, batch: Batch, lesson: LossInputs, reward: Float[Array, "group answer"]) -> LossInputs:
        lesson = super().assign_credit(batch, lesson, reward)
        there, entropy = lesson.rows.wrote & (lesson.weight > 0)[:, None], lesson.more
        if self.weighted == "answers":
            there, entropy = there.any(1, keepdims=True), sequence_mean(entropy, lesson.rows.wrote)[:, None]
        groups = (jnp.broadcast_to(x, there.shape) for x in (lesson.advantage, entropy, there))
        advantage, entropy, there = (x.reshape(-1, self.group_size, x.shape[1]) for x in groups)
        weight = sequence_weights(advantage, entropy, self.bonus, self.softmax_temperature, there)
        return lesson._replace(advantage=lesson.advantage * weight.reshape(-1, weight.shape[2]), more=())


class PrioritisedKL(GRPO):
    """GRPO with a divergence from the first policy that is relaxed where the first policy is unsure.

        c_t  = 1 + log p_t / log vocabulary       p_t: the greatest probability of the first policy at token t
        loss = GRPO's loss + divergence c_t^exponent KL_t        KL_t estimated by k2

    so that a token that decides the outcome, at which the first policy wavers, may be explored, and the others stay as
    they were. With `measure` largest, c_t = p_t. The first policy's p_t is at the temperature `reference_temperature`,
    over all tokens of the tokenizer.

    Vassoyan, Beau, Plaud (2025), "Ignore the KL Penalty! Boosting Exploration on Critical Tokens to Enhance RL
    Fine-Tuning", arXiv 2502.06533, as in the authors' `custom_a2c_policy.py` and `rl_train.py` (jvasso/llm-rl-
    arithmetic): estimator, measure, exponent 150 and temperature 4 are those of its configuration. There it is A2C with
    a divergence of weight 5 beside rewards of 1 to 100, here GRPO with its own 0.04. The paper's own pages could not be
    looked up.
    """

    example: ClassVar[str] = "forage train prioritised-kl text:addition --env.level 3"
    ranges: ClassVar[Ranges] = {
        **GRPO.ranges,
        "exponent": Range(0),
        "reference_temperature": Range(0, above=True),
    }
    choices: ClassVar[Choices] = {"measure": MEASURES}
    unused: ClassVar[Unused] = {"kl_placement": "A relaxed divergence counts in the loss"}

    exponent: float = 150.0  # how soon uncertainty relaxes the divergence; 0: it counts alike at all tokens
    reference_temperature: float = 4.0  # temperature of the first policy where its certainty is measured
    measure: str = equinox.field(static=True, default="negentropy")  # the measure of certainty, by name
    divergence: float = equinox.field(static=True, default=0.04)
    estimator: str | None = equinox.field(static=True, default="k2")

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if not self.divergence > 0:
            raise ForageError("PrioritisedKL relaxes a divergence; give it a weight above 0, or use grpo.")

    def with_log_probabilities(self, state: LanguageState, lesson: LossInputs) -> LossInputs:
        """Return the lesson with log-probabilities, and the weight of each token's divergence as `more`."""
        reference = self.reference_of(state)
        assert reference is not None

        known = fit_vocabulary(state.known, reference)

        def weigh(hidden: Array) -> Array:
            log_p = log_distribution(reference.logits(hidden), Sampling(self.reference_temperature), known)
            return certainty(log_p, self.exponent, self.measure, size=known.sum())

        def weigh_rows(rows: AnswerRows) -> Float[Array, "row new"]:
            hidden = self.compute_hidden(reference, rows, self.shared_prefix(rows))
            return self.map_logits(weigh, reference.architecture.vocabulary, (hidden,))

        lesson = super().with_log_probabilities(state, lesson)
        return lesson._replace(more=self.map_rows(weigh_rows, lesson.rows))

    def divergences(
        self, network: Transformer, state: LanguageState, lesson: LossInputs, scores: Scores
    ) -> Float[Array, "row new"]:
        return lesson.more * super().divergences(network, state, lesson, scores)
