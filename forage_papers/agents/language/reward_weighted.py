"""Alignment by recorded answers with rewards: the better ones are learned from more, or alone."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from forage.agents.language.base import AnswerRows, LanguageState
from forage.agents.language.sft import SFT
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, ForageError, Spec
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import aggregate, token_mean

RULES = ("weighted", "filtered")


class ScoredRows(NamedTuple):
    """Recorded answers with their rewards."""

    rows: AnswerRows
    begin: Int[Array, "row time"] | tuple[()]  # as in `PackedRows`
    reward: Float[Array, " row"]


class RewardWeighted(SFT):
    """Reward-weighted regression on recorded answers, or fine-tuning on those of the highest reward.

    Rows have `prompt`, `completion` and `reward`, a number; or `label`, true or false. The loss of an answer is its
    cross-entropy with the weight

        exp(r / beta) / mean of exp(r / beta)        of the batch, for the rule `weighted`
        1 if r >= least, else 0                      for the rule `filtered`

    Nothing is sampled, and no policy is compared with.

    Source: Hu, Tao, Yang, Zhou (2023), "Aligning Language Models with Offline Learning from Human Feedback", arXiv
    2308.12050, of which the abstract was read, which names filtering, reward-weighted regression and conditioning on
    the reward; the weight is that of Peters and Schaal (2007), "Reinforcement Learning by Reward-Weighted Regression
    for Operational Space Control". The division by the mean, which keeps the step size apart from beta, and the
    defaults are ours. The third way, conditioning, is `forage_papers.studies.conditioned`.
    """

    example: ClassVar[str] = "forage train reward-weighted --data scored.jsonl --model DIRECTORY"
    own_choices: ClassVar[str] = "the division by the mean, and the defaults"
    offline: ClassVar[bool] = True
    texts: ClassVar[tuple[str, ...]] = ("scored", "label")
    ranges: ClassVar[Ranges] = {**SFT.ranges, "beta": Range(0, above=True), "least": Range()}
    choices: ClassVar[Choices] = {**SFT.choices, "rule": RULES}

    rule: str = equinox.field(static=True, default="weighted")  # how rewards count: weighted or filtered
    beta: float = 1.0  # how much a reward has to differ to weigh e times as much; smaller is sharper
    least: float = 1.0  # reward from which on an answer is learned from, of `filtered`

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.packing:
            raise ForageError("Answers that share a row have no reward of their own; leave out --packing.")

    def items(self, state: LanguageState, batch: Batch) -> ScoredRows:  # type: ignore[override]
        rows, begin = super().items(state, batch)
        return ScoredRows(rows, begin, batch.experience.reward[0])

    def weights(self, reward: Float[Array, " row"]) -> Float[Array, " row"]:
        """Return the weight of each answer in the loss."""
        if self.rule == "filtered":
            return (reward >= self.least).astype(jnp.float32)
        scaled = (reward - reward.max()) / self.beta  # the largest exponent is 0, and the division undoes it
        return jnp.exp(scaled) / jnp.exp(scaled).mean()

    def text_loss(self, network: Transformer, state: LanguageState, items: Any) -> tuple[Any, Metrics]:
        rows, weight = items.rows, self.weights(items.reward)
        _, each, likely = self.token_losses(network, rows)
        mask = rows.wrote & (weight > 0)[:, None]
        loss = aggregate(each * weight[:, None], mask, self.aggregation)
        return loss, {
            "loss": loss,
            "cross_entropy": token_mean(each, rows.wrote),
            "token_accuracy": likely,
            "reward": items.reward.mean(),
            "reward_learned": (items.reward * weight).sum() / jnp.maximum(weight.sum(), 1e-9),
        }
