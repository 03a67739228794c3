"""Supervised fine-tuning: the expert's next text becomes more likely."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import AnswerRows, LanguageState
from forage.agents.language.recorded import TextLearner, flat_answers, is_recorded, recorded_rows
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import MEANS, aggregate, token_mean
from forage.ops.tokens.supervised import cross_entropy


class PackedRows(NamedTuple):
    """Recorded texts to learn from."""

    rows: AnswerRows
    begin: Int[Array, "row time"] | tuple[()]  # where each token's text begins, where a row holds several texts


class SFT(TextLearner):
    """Supervised fine-tuning by cross-entropy: on recorded text, or on the references of a text environment.

    Of recorded text (`--data chat.jsonl`) the answers are learned: of messages the assistant's words, of a prompt and a
    completion the completion, of a text all of it.

    A reference is what an expert would write where the conversation stands. With its usual behaviour, `worked`, the
    expert's text is also what is written, so that conversations go as the expert's; with `own` the policy writes, and
    is taught where its own words lead, as in DAgger. Turns without a reference teach nothing. Rewards are not looked
    at.

    It is the first step of Ouyang et al. (2022), "Training Language Models to Follow Instructions with Human Feedback",
    arXiv 2203.02155; a mean over all tokens is TRL's `SFTTrainer`.
    """

    example: ClassVar[str] = "forage train sft text:addition --env.level 2"
    usual_behaviour: ClassVar[str] = "expert-text"
    texts: ClassVar[tuple[str, ...]] = ("messages", "completion", "text")
    leaves_out: ClassVar[bool] = True
    choices: ClassVar[Choices] = {"aggregation": MEANS}
    checkpoint_rate: ClassVar[float | None] = 2e-5

    aggregation: str = equinox.field(static=True, default="token-mean")  # how losses of tokens become one number:
    # token-mean or sequence-mean
    only_answers: bool = equinox.field(static=True, default=True)  # whether the assistant's words alone are
    # learned of recorded messages; TRL learns the whole unless told otherwise
    packing: bool = equinox.field(static=True, default=False)  # whether several short recorded texts share a row of
    # `longest` tokens, of which none sees another; batch_size counts such rows

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.packing and self.base_model.architecture.family == "gpt2":
            raise ForageError(
                "A model of the family gpt2 counts positions from the beginning of a row, so its texts cannot share "
                "one; leave out --packing."
            )

    def items(self, state: LanguageState, batch: Batch) -> PackedRows:
        begin = batch.experience.observation.get("begin", ())
        return PackedRows(flat_answers(recorded_rows(batch)), begin if isinstance(begin, tuple) else begin[0][:, 0])

    def text_loss(self, network: Transformer, state: LanguageState, items: PackedRows) -> tuple[Any, Metrics]:
        loss, each, likely = self.token_losses(network, items.rows, items.begin)
        return loss, {"loss": loss, "cross_entropy": token_mean(each, items.rows.wrote), "token_accuracy": likely}

    def token_losses(
        self, network: Transformer, rows: AnswerRows, begin: Int[Array, "row time"] | tuple[()] = ()
    ) -> tuple[Float[Array, ""], Float[Array, "row new"], Float[Array, ""]]:
        """Return the loss of texts, that of each token, and the share of tokens that are the most probable ones."""

        def score(hidden: Array, token: Array, mask: Array) -> tuple[Array, Array]:
            logits = network.logits(hidden)
            return cross_entropy(logits, token, mask), jnp.argmax(logits, -1) == token

        inputs = self.compute_hidden(network, rows, begin=begin), rows.tokens[:, -rows.wrote.shape[1] :], rows.wrote
        each, likeliest = self.map_logits(score, network.architecture.vocabulary, inputs)
        likely = token_mean(likeliest, rows.wrote)
        return aggregate(each, rows.wrote, self.aggregation), each, jax.lax.stop_gradient(likely)

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " env"]]:
        if is_recorded(batch):
            return super().learn(state, batch, clock, key)
        experience = batch.experience
        rows = self.rows(batch._replace(experience=experience._replace(action=experience.observation["reference"])))

        def loss(network: Transformer, rows: AnswerRows, first: Bool[Array, ""]) -> tuple[Float[Array, ""], Metrics]:
            total, each, likely = self.token_losses(network, rows)
            return total, {"cross_entropy": token_mean(each, rows.wrote), "likeliest": likely}

        state, said = self.descend_minibatches(state, loss, rows, self.rate(clock), key)
        said |= {"reward": experience.reward.sum(0).mean(), "taught": rows.wrote.any(1).mean()}
        return state, said, jnp.zeros(experience.reward.shape[1])
