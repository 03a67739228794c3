"""A transformer that scores texts, or the steps of texts: a reward model of a run or of a directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from forage.core.text.tokenizer import Tokenizer
from forage.nn.language.generate import last_hidden
from forage.nn.language.pretrained import PretrainedModel
from forage.nn.transformer import Transformer


class PretrainedScorer(PretrainedModel):
    """A reward model by its source: a run of `reward-model` or `process-reward`, or a directory with such a head."""

    head: Float[Array, "*labels width"] | None = equinox.field(default=None, kw_only=True)

    @property
    def of_steps(self) -> bool:
        """Return whether it scores steps, of two labels, and not whole texts."""
        return self.head is not None and self.head.ndim == 2


def make_scorer(given: Any) -> Any:
    """Convert a name or a directory to a reward model."""
    return PretrainedScorer(given) if isinstance(given, str) else given


def text_scores(
    network: Transformer,
    head: Float[Array, " width"],
    tokens: Int[Array, "row time"],
    there: Bool[Array, "row time"],
    remat: bool = False,
) -> Float[Array, " row"]:
    """Return the score of each text: the product of its last token's hidden state with the head, in float32.

    `remat`: as in `Transformer.hidden_states`.
    """
    hidden = network.hidden_states(tokens, there, remat)
    return last_hidden(hidden, there).astype(jnp.float32) @ head.astype(jnp.float32)


def step_logits(
    network: Transformer,
    head: Float[Array, "2 width_and_bias"],
    tokens: Int[Array, "row time"],
    there: Bool[Array, "row time"],
    remat: bool = False,
) -> Float[Array, "row time 2"]:
    """Return the logits of wrong and right at each token, in float32. `head`: weights, and a bias behind them."""
    hidden = network.hidden_states(tokens, there, remat).astype(jnp.float32)
    return hidden @ head[:, :-1].T.astype(jnp.float32) + head[:, -1].astype(jnp.float32)


class StepEnds(NamedTuple):
    """The tokens that end a step of an answer."""

    ending: Bool[np.ndarray, " vocabulary"]  # the separator is in their texts
    blank: Bool[np.ndarray, " vocabulary"]  # their texts are white space
    stop: Bool[np.ndarray, " vocabulary"]  # they end the answer
    separator: int | None  # the token of the separator alone, if it is one

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer, separator: str, stop: Sequence[int]) -> StepEnds:
        """Return the tokens of a tokenizer that end a step. `stop`: those that end an answer."""
        texts = [tokenizer.decode([one]) for one in range(tokenizer.vocabulary)]
        alone = tokenizer.encode(separator)
        return cls(
            np.array([separator in text for text in texts]),
            np.array([not text.strip() for text in texts]),
            np.isin(np.arange(len(texts)), np.array(stop)),
            alone[0] if len(alone) == 1 else None,
        )


def step_scores(
    network: Transformer,
    head: Float[Array, "2 width_and_bias"],
    tokens: Int[Array, "row time"],
    there: Bool[Array, "row time"],
    answer: Bool[Array, "row time"],
    ends: StepEnds,
) -> tuple[Float[Array, "row time"], Bool[Array, "row time"]]:
    """Return the probability that a step is right at each token, and a mask of the tokens that end one.

    `answer`: a mask of the tokens of the answers. An answer's end stands for a separator, as steps were learned with
    one behind each; it and empty lines end no step where a separator stands before.
    """
    ending, blank, stop = (
        jnp.asarray(mask)[jnp.minimum(tokens, mask.size - 1)] & answer for mask in (ends.ending, ends.blank, ends.stop)
    )
    before = jnp.pad(ending[:, :-1], ((0, 0), (1, 0)))
    last = answer & ~jnp.pad(answer[:, 1:], ((0, 0), (0, 1)))
    steps = (ending | last) & ~((blank | stop) & before)
    if ends.separator is not None:
        tokens = jnp.where(stop, ends.separator, tokens)
    return jax.nn.softmax(step_logits(network, head, tokens, there))[..., 1], steps
