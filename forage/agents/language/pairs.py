"""Losses of pairs of answers by name, and agents that learn from recorded preferences (DPO and its relatives)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.agents.language.base import AnswerRows, LanguageState
from forage.agents.language.recorded import TextLearner, flat_answers, map_parts, recorded_rows
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, ForageError, Spec
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import sequence_sum, token_mean
from forage.ops.tokens.preferences import PREFERENCES

MEANS = ("ipo", "simpo", "orpo")
"""Losses of log-probabilities that are means over the tokens of an answer."""
WITHOUT_REFERENCE = ("simpo", "cpo", "orpo")
WITH_LIKELIHOOD = ("cpo", "orpo")
RECORDED = tuple(name for name in PREFERENCES if name not in ("xpo", "kto"))
"""Losses of recorded pairs: xpo needs answers of the first policy, and kto's answers are no pairs."""


def pair_losses(
    name: str,
    now: Float[Array, "pair 2"],
    reference: Float[Array, "pair 2"],
    likelihood: Float[Array, ""] | float = 0.0,
    **numbers: Any,
) -> Float[Array, " pair"]:
    """Return the loss of each pair, the better answer first, by the name of a preference that is `RECORDED`.

    `likelihood`: the cross-entropy of the better ones, of `WITH_LIKELIHOOD`. `numbers`: those of the loss, and the
    ones that other losses have (`smoothing`, `scale`, `margin`).
    """
    own = {"dpo": ["smoothing"], "robust-dpo": ["smoothing"], "cpo": ["scale"], "orpo": ["scale"], "simpo": ["margin"]}
    used = {key: value for key, value in numbers.items() if value is not None and key in ("beta", *own.get(name, ()))}
    if name in WITH_LIKELIHOOD:
        return PREFERENCES[name](*now.T, likelihood, **used)
    return PREFERENCES[name](*now.T, *(() if name in WITHOUT_REFERENCE else reference.T), **used)


class RecordedPair(NamedTuple):
    """Two recorded answers to one prompt, the better one first; leaves `pair 2 ...`."""

    rows: AnswerRows
    reference: Float[Array, "pair 2"]  # log-probability of each answer under the first policy


class DPO(TextLearner):
    """Direct preference optimisation of recorded pairs: chosen answers become more likely than rejected ones.

    With h = (log pi(chosen) - log first(chosen)) - (log pi(rejected) - log first(rejected)), of whole answers, each
    update goes down the mean of -log sigmoid(beta h). `preference` names the loss (`ops/tokens/preferences`). What is
    compared with is the first policy; simpo, cpo and orpo keep none.

    Rafailov et al. (2023), "Direct Preference Optimization: Your Language Model is Secretly a Reward Model", arXiv
    2305.18290, as in TRL's `DPOTrainer`. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train dpo --data pairs.jsonl --model DIRECTORY"
    offline: ClassVar[bool] = True
    texts: ClassVar[tuple[str, ...]] = ("preference",)
    ranges: ClassVar[Ranges] = {
        **TextLearner.ranges,
        "beta": Range(0, above=True),
        "smoothing": Range(0, 0.5, below=True),
        "likelihood": Range(0),
        "margin": Range(0),
    }
    choices: ClassVar[Choices] = {"preference": RECORDED}

    preference: str = equinox.field(static=True, default="dpo")  # the loss of a pair, by name
    beta: float | None = None  # how much a preference weighs beside staying near the first policy, smaller moves more;
    # none: the loss's own, 0.1 of dpo
    smoothing: float = 0.0  # share of labels that are taken to be the wrong way round, of dpo and robust-dpo
    likelihood: float = 1.0  # weight of the likelihood of the better answer, of cpo and orpo
    margin: float | None = None  # how far apart the answers are to be, of simpo; none: the loss's own, 1.375

    @property
    def referred(self) -> bool:
        return self.preference not in WITHOUT_REFERENCE

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.preference not in RECORDED:
            raise ForageError(
                f"The preference {self.preference} is no loss of recorded pairs; {', '.join(RECORDED)} are, and kto is "
                f"an agent of its own."
            )

    def items(self, state: LanguageState, batch: Batch) -> RecordedPair:
        rows = recorded_rows(batch)
        first = jnp.zeros(rows.tokens.shape[:2])
        if (network := self.reference_of(state)) is not None:
            first = map_parts(lambda part: self.answer_scores(network, part)[0], rows, self.updates)
        return RecordedPair(rows, jax.lax.stop_gradient(first))

    def answer_scores(
        self, network: Transformer, rows: AnswerRows
    ) -> tuple[Float[Array, "pair 2"], Float[Array, "pair 2 new"]]:
        """Return the log-probability of each answer, of `MEANS` the mean over its tokens, and that of each token."""
        flat = flat_answers(rows)
        each = self.score_recorded(network, flat)
        total = sequence_sum(each, flat.wrote)
        if self.preference in MEANS:
            total = total / jnp.maximum(flat.wrote.sum(-1), 1)
        return total.reshape(rows.tokens.shape[:2]), each.reshape(rows.wrote.shape)

    def text_loss(self, network: Transformer, state: LanguageState, items: RecordedPair) -> tuple[Any, Metrics]:
        rows = items.rows
        now, each = self.answer_scores(network, rows)
        likelihood = 0.0
        if self.preference in WITH_LIKELIHOOD:
            # ORPO's is of prompt and answer
            counted = rows.there[:, 0, 1:] if self.preference == "orpo" else rows.wrote[:, 0]
            likelihood = token_mean(-each[:, 0], counted)
        numbers = {"beta": self.beta, "smoothing": self.smoothing, "scale": self.likelihood, "margin": self.margin}
        loss = pair_losses(self.preference, now, items.reference, likelihood, **numbers).mean()
        ahead = (now - items.reference) @ jnp.array([1.0, -1.0])
        return loss, {
            "loss": loss,
            "accuracy": (ahead > 0).mean(),
            "margin": ahead.mean(),
            "chosen": now[:, 0].mean(),
            "rejected": now[:, 1].mean(),
        }
