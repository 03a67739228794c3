"""A reward model: a transformer that ends in one number, learned from chosen and rejected answers."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import AnswerRows
from forage.agents.language.descent import descend
from forage.agents.language.recorded import TextLearner, flat_answers, recorded_rows
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.nn.language import lora
from forage.nn.language.generate import SharedPrefix
from forage.nn.language.scorer import text_scores
from forage.nn.transformer import Transformer

SPREAD = 0.02  # deviation of the head's first weights, as in transformers


class ScorerState(NamedTuple):
    """State of a reward model; the names are those of `LanguageState`."""

    network: Transformer
    optimiser: Any
    reference: tuple[()]
    end: Int[Array, "*several"]
    known: Bool[Array, " vocabulary"]
    head: Float[Array, " width"]


class ComparedTexts(NamedTuple):
    """Chosen and rejected texts, leaves `pair 2 ...`."""

    rows: AnswerRows
    margin: Float[Array, " pair"]  # by how much the chosen one is better, where the file says so


class RewardModel(TextLearner):
    """A reward model of recorded preferences (Bradley and Terry): chosen texts get a higher score than rejected ones.

    The score of a text is the product of its last token's hidden state with a vector. Each update goes down the mean of

        -log sigmoid(score(chosen) - score(rejected) - margin) + centre (score(chosen) + score(rejected))^2

    where the margin is the column `margin` of a row, 0 without one. The run is a reward for agents that write:
    `--rewards RUN`.

    Ouyang et al. (2022), "Training Language Models to Follow Instructions with Human Feedback", arXiv 2203.02155,
    equation 1; centring is of Eisenstein et al. (2023), "Helping or Herding? Reward Model Ensembles Mitigate but do not
    Eliminate Reward Hacking", arXiv 2312.09244; both as in TRL's `RewardTrainer`. The papers' own pages could not be
    looked up.
    """

    example: ClassVar[str] = "forage train reward-model --data pairs.jsonl --model DIRECTORY"
    offline: ClassVar[bool] = True
    writes: ClassVar[bool] = False
    texts: ClassVar[tuple[str, ...]] = ("preference",)
    unused: ClassVar[Unused] = {"router_balance": "A reward model has a loss of its own"}
    ranges: ClassVar[Ranges] = {**TextLearner.ranges, "centre": Range(0)}

    checkpoint_rate: ClassVar[float | None] = 1e-4

    centre: float = 0.0  # weight of keeping scores near 0; 0.01 in Eisenstein et al.

    def init(self, key: Key[Array, ""], spec: Spec) -> ScorerState:  # type: ignore[override]
        state = super().init(key, spec)
        width = state.network.architecture.width
        head = SPREAD * jax.random.normal(jax.random.fold_in(key, 1), (width,))
        learned = self.split_frozen(state.network)[0], head
        return ScorerState(state.network, self.steps(1.0).init(learned), (), state.end, state.known, head)

    def masters(self, state: Any) -> Transformer:
        exact = super().masters(state)
        return exact if isinstance(exact, Transformer) else exact[0]

    def items(self, state: ScorerState, batch: Batch) -> ComparedTexts:
        return ComparedTexts(recorded_rows(batch), batch.experience.observation["margin"][0])

    def learn(  # type: ignore[override]
        self, state: ScorerState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[ScorerState, Metrics, Float[Array, " batch"]]:
        learned, fixed = self.split_frozen(state.network)

        def loss(learned: Any, items: ComparedTexts, first: Bool[Array, ""]) -> tuple[Float[Array, ""], Metrics]:
            return self.compare(lora.combine_adapters(learned[0], fixed), learned[1], items)

        optimiser = self.steps(self.text_rate(clock))
        (learned, head), inner, said = descend(
            loss,
            (learned, state.head),
            state.optimiser,
            optimiser,
            self.items(state, batch),
            self.epochs,
            self.updates,
            key,
        )
        state = state._replace(network=lora.combine_adapters(learned, fixed), optimiser=inner, head=head)
        return state, said, jnp.zeros(len(batch.weight))

    def text_loss(self, network: Transformer, state: ScorerState, items: ComparedTexts) -> tuple[Any, Metrics]:
        return self.compare(network, state.head, items)

    def compare(
        self, network: Transformer, head: Float[Array, " width"], items: ComparedTexts
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the loss of pairs, and metrics."""
        rows = flat_answers(items.rows)

        def score_texts(rows: AnswerRows, together: SharedPrefix) -> Float[Array, " row"]:
            return text_scores(network, head, rows.tokens, rows.there, self.remats(network, rows))

        score = self.in_pieces(score_texts, rows).reshape(-1, 2)
        apart = score[:, 0] - score[:, 1]
        loss = jnp.mean(-jax.nn.log_sigmoid(apart - items.margin)) + self.centre * jnp.mean(score.sum(1) ** 2)
        return loss, {
            "loss": loss,
            "accuracy": (apart > 0).mean(),
            "margin": apart.mean(),
            "chosen": score[:, 0].mean(),
            "rejected": score[:, 1].mean(),
        }
