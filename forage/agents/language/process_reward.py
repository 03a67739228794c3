"""A process reward model: a transformer that ends in the probability that a step of an answer is right."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from forage.agents.language.base import AnswerRows
from forage.agents.language.recorded import flat_answers, recorded_rows
from forage.agents.language.reward_model import SPREAD, RewardModel, ScorerState
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.types import Batch, Spec
from forage.data.text.tokens import SEPARATOR
from forage.nn.language.generate import SharedPrefix
from forage.nn.language.scorer import step_logits
from forage.nn.transformer import Transformer


class LabelledSteps(NamedTuple):
    """Texts with labels at the ends of their steps, leaves `row 1 ...`."""

    rows: AnswerRows
    step: Int[Array, "row 1 time"]  # 1: a wrong step ends here, 2: a right one, 0: none


class ProcessReward(RewardModel):
    """A reward model of recorded steps, each of which is labelled right or wrong (outcomes of processes).

    The last token of each step has two logits, of wrong and right. Each update goes down the mean over all steps of

        -log softmax(logits)[label]

    The run is a reward for agents that write, `--rewards RUN`: by default the least probability of right among the
    steps of an answer.

    Uesato et al. (2022), "Solving Math Word Problems with Process- and Outcome-Based Feedback", arXiv 2211.14275, and
    Lightman et al. (2023), "Let's Verify Step by Step", arXiv 2305.20050, as in TRL's `PRMTrainer`. The papers' own
    pages could not be looked up.
    """

    example: ClassVar[str] = "forage train process-reward --data steps.jsonl --model DIRECTORY"
    texts: ClassVar[tuple[str, ...]] = ("steps",)
    unused: ClassVar[Unused] = {**RewardModel.unused, "centre": "A step has two labels, and no score to keep near 0"}

    checkpoint_rate: ClassVar[float | None] = 1e-5

    separator: str = equinox.field(static=True, default=SEPARATOR)  # the text behind each step; \n is a line break

    @property
    def text_options(self) -> dict[str, Any]:  # type: ignore[override]
        return {"separator": self.separator}

    def init(self, key: Key[Array, ""], spec: Spec) -> ScorerState:
        state = super().init(key, spec)
        width = state.network.architecture.width
        weights = SPREAD * jax.random.normal(jax.random.fold_in(key, 1), (2, width))
        head = jnp.concatenate([weights, jnp.zeros((2, 1))], axis=1)  # of two labels, the biases last
        learned = self.split_frozen(state.network)[0], head
        return state._replace(optimiser=self.steps(1.0).init(learned), head=head)

    def items(self, state: ScorerState, batch: Batch) -> Any:
        return LabelledSteps(recorded_rows(batch), batch.experience.observation["step"][0])

    def compare(self, network: Transformer, head: Float[Array, "2 width_and_bias"], items: Any) -> tuple[Any, Metrics]:
        """Compute the loss of labelled steps, and metrics."""
        rows, step = flat_answers(items.rows), items.step.reshape(-1, items.step.shape[-1])

        def score_texts(rows: AnswerRows, together: SharedPrefix) -> Float[Array, "row time 2"]:
            return step_logits(network, head, rows.tokens, rows.there, self.remats(network, rows))

        logits = self.in_pieces(score_texts, rows)
        there, right = step > 0, step == np.int32(2)
        surprise = -jnp.take_along_axis(jax.nn.log_softmax(logits), right[..., None].astype(jnp.int32), -1)[..., 0]

        def mean(value: Array, among: Array) -> Float[Array, ""]:
            return jnp.sum(jnp.where(among, value, 0.0)) / jnp.maximum(among.sum(), 1)

        loss, probability = mean(surprise, there), jax.nn.softmax(logits)[..., 1]
        return loss, {
            "loss": loss,
            "accuracy": mean((probability > 0.5) == right, there),
            "right": mean(probability, there & right),
            "wrong": mean(probability, there & ~right),
        }
