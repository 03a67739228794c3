"""A transformer that scores texts: a reward model of a run, or of a directory for sequence classification."""

from __future__ import annotations

from typing import Any

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage.nn.language.generate import last_hidden
from forage.nn.language.pretrained import PretrainedModel
from forage.nn.transformer import Transformer


class PretrainedScorer(PretrainedModel):
    """A reward model by its source: a run of `reward-model`, or a directory with a `score.weight`."""

    head: Float[Array, " width"] | None = equinox.field(default=None, kw_only=True)


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
