"""A reward model as the judge of answers."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import Experience, ForageError, Spec
from forage.nn.language.scorer import PretrainedScorer, make_scorer, text_scores
from forage.rewards.verifiers.base import TextRewards, at_the_end


class Scorer(TextRewards):
    """r' = weight score + own r, with the score of a reward model and r the reward of `inner`.

    The score is that of the whole conversation: all that was read before the last answer, and the answer. The reward
    model is a run of `reward-model`, or a directory of a class for sequence classification with one label, as
    transformers and TRL write it; `--rewards RUN` and `--rewards DIRECTORY` name it. Its tokenizer is the policy's.

    Ouyang et al. (2022), "Training Language Models to Follow Instructions with Human Feedback", arXiv 2203.02155, as in
    TRL's `GRPOTrainer` with a reward model. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train grpo text:addition --rewards scorer --rewards.judge runs/judge"
    ranges: ClassVar[Ranges] = {"own": Range(0)}

    judge: str | PretrainedScorer = equinox.field(converter=make_scorer)  # the reward model: a run or a directory
    weight: float = 1.0  # factor of the score
    own: float = 0.0  # factor of the environment's own reward beside it

    @property
    def reward_model(self) -> PretrainedScorer:
        assert isinstance(self.judge, PretrainedScorer)
        return self.judge

    def check(self, spec: Spec) -> None:
        super().check(spec)
        self.reward_model.check_reads(spec, "The reward model reads texts")

    def relabel(self, state: Any, experience: Experience) -> Experience:
        given = self.inner.relabel(state, experience)
        score = at_the_end(experience, self.weight * self.scores(experience))
        return given._replace(reward=score + self.own * given.reward)

    def scores(self, experience: Experience) -> Float[Array, " env"]:
        """Return the score of each conversation, leaves `time env ...`."""
        if self.reward_model.weights is None or self.reward_model.head is None:
            raise ForageError(
                f"The reward model {self.reward_model.source} has not been read; a run does that when it begins."
            )
        context = experience.observation["context"]
        time = jnp.arange(len(context))[:, None]
        last = jnp.max(jnp.where((context != Tokens.PAD).any(-1), time, 0), 0)
        whole = jnp.concatenate([context, experience.action], -1)
        text = jnp.take_along_axis(whole, last[None, :, None], 0)[0]
        found = text_scores(
            self.reward_model.weights, self.reward_model.head, jnp.maximum(text - 1, 0), text != Tokens.PAD
        )
        return jax.lax.stop_gradient(found)
