"""A reward model as the judge of answers."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.text import named
from forage.core.text.dialogue import turn_end
from forage.core.types import Experience, ForageError, Spec
from forage.nn.language.peft import tokenizer_name
from forage.nn.language.scorer import PretrainedScorer, StepEnds, make_scorer, step_scores, text_scores
from forage.rewards.verifiers.base import TextRewards, at_the_end

STEPS = ("min", "last", "mean", "product")
"""The rules that make one score of those of steps."""


class Scorer(TextRewards):
    """r' = weight score + own r, with the score of a reward model and r the reward of `inner`.

    The score is that of the whole conversation: all that was read before the last answer, and the answer. The reward
    model is a run of `reward-model`, or a directory of a class for sequence classification with one label, as
    transformers and TRL write it; `--rewards RUN` and `--rewards DIRECTORY` name it. Its tokenizer is the policy's.

    A run of `process-reward`, or a directory for token classification with two labels, gives each step of the last
    answer the probability that it is right, and the score is the least of these, or by `steps` another of them.

    Ouyang et al. (2022), "Training Language Models to Follow Instructions with Human Feedback", arXiv 2203.02155, as in
    TRL's `GRPOTrainer` with a reward model. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train grpo text:addition --rewards scorer --rewards.judge runs/judge"
    ranges: ClassVar[Ranges] = {"own": Range(0)}
    choices: ClassVar[Choices] = {"steps": STEPS}

    judge: str | PretrainedScorer = equinox.field(converter=make_scorer)  # the reward model: a run or a directory
    weight: float = 1.0  # factor of the score
    own: float = 0.0  # factor of the environment's own reward beside it
    steps: str = equinox.field(static=True, default="min")  # the score by steps: the min, the last, the mean or the
    # product of their probabilities
    separator: str = equinox.field(static=True, default="\n")  # the text behind each step, as it was learned

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
        tokens, there = jnp.maximum(text - 1, 0), text != Tokens.PAD
        network, head = self.reward_model.weights, self.reward_model.head
        if not self.reward_model.of_steps:
            return jax.lax.stop_gradient(text_scores(network, head, tokens, there))
        answer = there & (jnp.arange(text.shape[1]) >= context.shape[-1])
        separator = self.separator.replace("\\n", "\n")
        found = step_scores(network, head, tokens, there, answer, step_ends(self.reward_model.source, separator))
        return jax.lax.stop_gradient(join_steps(*found, self.steps))


@functools.lru_cache(maxsize=4)
def step_ends(source: str, separator: str) -> StepEnds:
    """Return the tokens that end a step, of the tokenizer of a reward model."""
    tokenizer = named.tokenizer(tokenizer_name(source))
    own = turn_end(tokenizer, tokenizer.template)
    stop = (*tokenizer.ends, *(() if own is None else (tokenizer.special[own],)))
    return StepEnds.from_tokenizer(tokenizer, separator, stop)


def join_steps(score: Float[Array, "env time"], steps: Bool[Array, "env time"], rule: str) -> Float[Array, " env"]:
    """Return one score of the steps of each answer; 0 for one without a step."""
    if rule == "min":
        found = jnp.min(jnp.where(steps, score, 1.0), 1)
    elif rule == "product":
        found = jnp.prod(jnp.where(steps, score, 1.0), 1)
    elif rule == "mean":
        found = jnp.sum(jnp.where(steps, score, 0.0), 1) / jnp.maximum(steps.sum(1), 1)
    else:
        place = jnp.max(jnp.where(steps, jnp.arange(steps.shape[1]), 0), 1)
        found = jnp.take_along_axis(score, place[:, None], 1)[:, 0]
    return jnp.where(steps.any(1), found, 0.0)
