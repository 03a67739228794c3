"""Distillation on the student's own answers, with or without rewards."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.language.base import LanguageState, warmth
from forage.agents.language.grpo import GRPO, LossInputs, Scores
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices, Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import ForageError, Spec
from forage.nn.language.pretrained import PretrainedModel, make_pretrained
from forage.nn.transformer import Transformer
from forage.ops.tokens.supervised import DIRECTIONS, distillation

UNKNOWN = -1e9  # logit of an entry of the vocabulary without a token; finite, so that differences are
OVER = ("tokens", "vocabulary")
"""Supports of the divergence's sum: the tokens that were drawn, by an estimator, or the whole vocabulary."""


class Distill(GRPO):
    """GRPO, and the divergence of the student from a teacher on the student's own answers.

        reward_share GRPO's loss + divergence KL(pi || teacher)

    With `over` tokens the divergence is estimated from the tokens that were drawn (`estimator`), with `over` vocabulary
    it is summed over all, in a `direction` by name (`ops/tokens/supervised.distillation`). A `reward_share` of 0 is
    distillation alone, and no reward is needed. The teacher has the student's tokenizer; a
    vocabulary that is padded beyond its tokens counts without the padding. Both are compared at the temperature of the
    answer and without truncation over the vocabulary.

    Xu et al. (2025), "KDRL: Post-Training Reasoning LLMs via Unified Knowledge Distillation and Reinforcement
    Learning", arXiv 2506.02208, as reviews tell it: the estimator k2, a weight of 5e-3 and a mean over tokens; there
    the weight falls. Agarwal et al. (2023), "On-Policy Distillation of Language Models", arXiv
    2306.13649, for the sum over the vocabulary. The papers' own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train distill text:addition --env.level 2 --teacher runs/teacher --reward-share 0"
    corrects_sampler: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {**GRPO.ranges, "reward_share": Range(0), "mixture": Range(0, 1)}
    choices: ClassVar[Choices] = {"over": OVER, "direction": DIRECTIONS}
    unused: ClassVar[Unused] = {"kl_placement": "A teacher counts in the loss"}

    teacher: str | PretrainedModel = equinox.field(
        default="forage", converter=make_pretrained
    )  # whom the student comes to
    # resemble: the base model `forage`, a directory of Hugging Face's or a run's
    reward_share: float = 1.0  # weight of what GRPO learns from rewards; 0: distillation alone
    divergence: float = equinox.field(static=True, default=5e-3)
    estimator: str | None = equinox.field(static=True, default="k2")
    over: str = equinox.field(static=True, default="tokens")  # whether the divergence is estimated from the tokens that
    # were drawn, or summed over the vocabulary
    direction: str = equinox.field(static=True, default="reverse")  # over the vocabulary: reverse, forward or mixed
    mixture: float = equinox.field(static=True, default=0.5)  # the teacher's share of what mixed compares both with
    aggregation: str = equinox.field(static=True, default="token-mean")

    @property
    def referred(self) -> bool:
        return True

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if not self.divergence > 0:
            raise ForageError("A teacher counts by the weight divergence; give one above 0.")
        assert isinstance(self.teacher, PretrainedModel)
        if self.teacher.sha256 and self.teacher.sha256 == self.base_model.sha256:
            raise ForageError(
                f"The teacher {self.teacher.source} is the model that learning begins from, so there is nothing to "
                f"learn; name another one with --teacher, or a student with --model."
            )
        assert isinstance(spec.action_space, Tokens)
        teacher, tokens = self.teacher.architecture.vocabulary, spec.action_space.vocabulary - 1
        if teacher < tokens:
            raise ForageError(
                f"The teacher {self.teacher.source} knows {teacher} tokens and the tokenizer of {spec.name} has "
                f"{tokens}; a teacher has the student's tokenizer."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> LanguageState:
        assert isinstance(self.teacher, PretrainedModel)
        return super().init(key, spec)._replace(reference=self.teacher.first(self.number_type))

    def divergences(
        self, network: Transformer, state: LanguageState, lesson: LossInputs, scores: Scores
    ) -> Float[Array, "row new"]:
        if self.over == "tokens":
            return super().divergences(network, state, lesson, scores)
        rows = lesson.rows
        assert isinstance(state.reference, Transformer)
        models = network, state.reference
        shared = min(one.architecture.vocabulary for one in models)

        def compare(student: Array, teacher: Array, heat: Array, mask: Array) -> Float[Array, "*token"]:
            def known_logits(one: Transformer, hidden: Array) -> Float[Array, "*token vocabulary"]:
                """Return logits of the tokenizer's tokens alone: vocabularies are padded to sizes of their own."""
                return jnp.where(state.known[:shared], one.logits(hidden)[..., :shared], UNKNOWN) / heat

            own, wanted = known_logits(models[0], student), known_logits(models[1], teacher)
            return distillation(own, wanted, mask, self.direction, self.mixture)

        hidden = (self.compute_hidden(one, rows, self.shared_prefix(rows)) for one in models)
        inputs = *hidden, jnp.broadcast_to(warmth(rows), (*scores.mask.shape, 1)), scores.mask
        return self.map_logits(compare, network.architecture.vocabulary, inputs)

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        loss, metrics = super().surrogate(network, lesson, scores)
        return self.reward_share * loss, metrics
