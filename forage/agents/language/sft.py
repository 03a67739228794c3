"""Supervised fine-tuning: the expert's next text becomes more likely."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import AnswerRows, LanguageAgent, LanguageState
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices
from forage.core.types import Batch, Clock
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import MEANS, aggregate, token_mean
from forage.ops.tokens.supervised import cross_entropy


class SFT(LanguageAgent):
    """Supervised fine-tuning on the references of a text environment, by cross-entropy.

    A reference is what an expert would write where the conversation stands. With its usual behaviour, `worked`, the
    expert's text is also what is written, so that conversations go as the expert's; with `own` the policy writes, and
    is taught where its own words lead, as in DAgger. Turns without a reference teach nothing. Rewards are not looked
    at.

    It is the first step of Ouyang et al. (2022), "Training Language Models to Follow Instructions with Human Feedback",
    arXiv 2203.02155; a mean over all tokens is TRL's `SFTTrainer`.
    """

    example: ClassVar[str] = "forage train sft text:addition --env.level 2"
    usual_behaviour: ClassVar[str] = "expert-text"
    choices: ClassVar[Choices] = {"aggregation": MEANS}

    aggregation: str = equinox.field(static=True, default="token-mean")  # how losses of tokens become one number:
    # token-mean or sequence-mean

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " env"]]:
        experience = batch.experience
        rows = self.rows(batch._replace(experience=experience._replace(action=experience.observation["reference"])))

        def loss(network: Transformer, rows: AnswerRows, first: Bool[Array, ""]) -> tuple[Float[Array, ""], Metrics]:
            logits, token = self.logits(network, rows), rows.tokens[:, -rows.wrote.shape[1] :]
            each = cross_entropy(logits, token, rows.wrote)
            likely = token_mean(jnp.argmax(logits, -1) == token, rows.wrote)
            return aggregate(each, rows.wrote, self.aggregation), {
                "cross_entropy": token_mean(each, rows.wrote),
                "likeliest": jax.lax.stop_gradient(likely),
            }

        state, said = self.descend_minibatches(state, loss, rows, self.rate(clock), key)
        said |= {"reward": experience.reward.sum(0).mean(), "taught": rows.wrote.any(1).mean()}
        return state, said, jnp.zeros(experience.reward.shape[1])
