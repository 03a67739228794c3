"""Learning from recorded text: rows of a file in place of answers that the policy writes.

A batch has whole texts (`forage/memory/texts.py`), one a row or, of a preference, two, with a mask of the tokens that
are learned from. These are scored by the whole vocabulary at temperature 1, as nobody drew them.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.agents.language.base import AnswerRows, LanguageAgent, LanguageState
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import Batch, Clock, Spec
from forage.nn.language.generate import SharedPrefix, log_probabilities
from forage.nn.transformer import Transformer


class TextLearner(LanguageAgent):
    """A language agent that learns from recorded text, one batch of rows an update."""

    ranges: ClassVar[Ranges] = {
        **LanguageAgent.ranges,
        "batch_size": Range(1),
        "longest": Range(2),
        "passes": Range(0, above=True),
    }

    batch_size: int = equinox.field(static=True, default=8)  # rows of recorded text to an update, as in TRL
    longest: int = equinox.field(static=True, default=1024)  # tokens of a recorded text; rows with more are left out
    tokenizer: str = equinox.field(static=True, default="")  # a directory with that of recorded text; none: the model's
    passes: float = equinox.field(static=True, default=3.0)  # over recorded text, where --steps is not given

    @abc.abstractmethod
    def items(self, state: Any, batch: Batch) -> PyTree[Array]:
        """Return the rows of a batch of recorded text to learn from, leaves `item ...`."""

    @abc.abstractmethod
    def text_loss(self, network: Any, state: Any, items: Any) -> tuple[Float[Array, ""], Metrics]:
        """Compute the loss of some rows, and metrics."""

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " batch"]]:
        def loss(network: Transformer, items: Any, first: Bool[Array, ""]) -> tuple[Float[Array, ""], Metrics]:
            return self.text_loss(network, state, items)

        items = self.items(state, batch)
        state, said = self.descend_minibatches(state, loss, items, self.text_rate(clock), key)
        return state, said, jnp.zeros(len(batch.weight))

    def measure(self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]) -> Metrics:
        return self.text_loss(state.network, state, self.items(state, batch))[1]

    def score_recorded(self, network: Transformer, rows: AnswerRows) -> Float[Array, "row new"]:
        """Return the log-probability of each token of texts but the first."""

        def score(rows: AnswerRows, together: SharedPrefix) -> Float[Array, "row new"]:
            remat, new = self.remats(network, rows), rows.wrote.shape[-1]
            return log_probabilities(
                network, rows.tokens, mask=rows.there, chunk=self.chunk, remat=remat, wanted=new, together=together
            )[0]

        return self.in_pieces(score, rows)

    def rows_of_pass(self, spec: Spec) -> int:
        if spec.horizon is not None:  # an environment
            return super().rows_of_pass(spec)
        return self.batch_size * (2 if "preference" in self.texts else 1)

    def text_rate(self, clock: Clock) -> Float[Array, ""]:
        """Return the learning rate of an update from recorded text, before which no rollout was made."""
        return self.rate(clock._replace(steps=clock.steps + self.num_envs * self.rollout_length))


def is_recorded(batch: Batch) -> bool:
    """Return whether a batch is of recorded text, and not of a rollout."""
    observed = batch.experience.observation
    return isinstance(observed, dict) and "text" in observed


def recorded_rows(batch: Batch) -> AnswerRows:
    """Return the texts of a batch, leaves `item answer ...`; all tokens but the first may be learned from."""
    observed = batch.experience.observation
    text, wrote = observed["text"][0], observed["wrote"][0][..., 1:]
    none = jnp.zeros(wrote.shape)
    return AnswerRows(jnp.maximum(text - 1, 0), text != Tokens.PAD, wrote, none, none + 1)


def flat_answers(rows: AnswerRows) -> AnswerRows:
    """Return texts, leaves `item answer ...`, as rows, leaves `row ...`."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)


def map_parts(function: Callable[[AnswerRows], Array], rows: AnswerRows, parts: int) -> Array:
    """Apply a function to texts, leaves `item ...`, in equal parts, so that no more are in memory than in an update."""
    count = len(rows.tokens)
    parts = parts if count % parts == 0 else 1
    found = jax.lax.map(function, jax.tree.map(lambda x: x.reshape(parts, count // parts, *x.shape[1:]), rows))
    return found.reshape(count, *found.shape[2:])
