"""KTO: recorded answers that are wanted or not, without pairs."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.agents.language.base import AnswerRows, LanguageState
from forage.agents.language.recorded import TextLearner, flat_answers, map_parts, recorded_rows
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import sequence_sum
from forage.ops.tokens.preferences import kto, kto_baseline


class LabelledAnswers(NamedTuple):
    """Answers with labels, each with its prompt before another answer; leaves `item 2 ...`."""

    rows: AnswerRows
    reference: Float[Array, "item 2"]  # log-probability under the first policy
    wanted: Bool[Array, " item"]


class KTO(TextLearner):
    """Kahneman-Tversky optimisation: recorded answers with a label become more likely, or less.

    With x = log pi - log first of an answer, and b = max(0, mean x of other rows' answers to the same prompts), each
    update goes down the mean of

        wanted_weight (1 - sigmoid(beta (x - b)))        of a wanted answer
        unwanted_weight (1 - sigmoid(beta (b - x)))      of another

    Rows of chosen and rejected answers are read as two, one wanted and one not. Of no answer of another row does the
    policy learn anything.

    Ethayarajh et al. (2024), "KTO: Model Alignment as Prospect Theoretic Optimization", arXiv 2402.01306, equation 7
    as in TRL's `KTOTrainer`, where an answer is put behind the prompt of the row before in its batch; here the next
    row of the file gives it. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train kto --data labels.jsonl --model DIRECTORY"
    offline: ClassVar[bool] = True
    texts: ClassVar[tuple[str, ...]] = ("label", "preference")
    text_options: ClassVar[dict[str, Any]] = {"others": True}
    ranges: ClassVar[Ranges] = {
        **TextLearner.ranges,
        "beta": Range(0, above=True),
        "wanted_weight": Range(0),
        "unwanted_weight": Range(0),
    }

    beta: float = 0.1  # how much a label weighs beside staying near the first policy, smaller moves more
    wanted_weight: float = 1.0  # weight of wanted answers; where they are few, more evens it out
    unwanted_weight: float = 1.0  # weight of all others

    @property
    def referred(self) -> bool:
        return True

    def items(self, state: LanguageState, batch: Batch) -> LabelledAnswers:
        rows, network = recorded_rows(batch), self.reference_of(state)
        assert network is not None
        first = map_parts(lambda part: self.answer_scores(network, part), rows, self.updates)
        return LabelledAnswers(rows, jax.lax.stop_gradient(first), batch.experience.reward[0] > 0)

    def text_loss(self, network: Transformer, state: LanguageState, items: LabelledAnswers) -> tuple[Any, Metrics]:
        now = self.answer_scores(network, items.rows)
        baseline = kto_baseline(now[:, 1], items.reference[:, 1])
        weights = self.wanted_weight, self.unwanted_weight
        loss = kto(now[:, 0], items.reference[:, 0], items.wanted, baseline, self.beta, *weights).mean()
        ahead = self.beta * (now - items.reference)[:, 0]
        count = jnp.maximum(items.wanted.sum(), 1), jnp.maximum((~items.wanted).sum(), 1)
        chosen = jnp.sum(jnp.where(items.wanted, ahead, 0)) / count[0]
        rejected = jnp.sum(jnp.where(items.wanted, 0, ahead)) / count[1]
        right = (ahead > self.beta * baseline) == items.wanted
        return loss, {
            "loss": loss,
            "accuracy": right.mean(),
            "margin": chosen - rejected,
            "chosen": chosen,
            "rejected": rejected,
            "baseline": baseline,
        }

    def answer_scores(self, network: Transformer, rows: AnswerRows) -> Float[Array, "item 2"]:
        """Return the log-probability of each answer, the sum over its tokens."""
        flat = flat_answers(rows)
        return sequence_sum(self.score_recorded(network, flat), flat.wrote).reshape(rows.tokens.shape[:2])
