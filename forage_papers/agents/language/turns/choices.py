"""Language agents that choose among given texts by their log-probabilities."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from forage.agents.language.base import LOWEST, LanguageAgent
from forage.core.ports.needs import Unused
from forage.core.spaces import Tokens
from forage.core.text import named
from forage.core.types import ForageError, Spec
from forage.nn.language.generate import last_hidden
from forage.nn.transformer import Transformer
from forage.ops.sampling import log_distribution, token_value


class TextScores(NamedTuple):
    """Scores of all texts after each context, and the hidden state that they begin from."""

    scores: Float[Array, "row text"]  # log-probability of each text
    hidden: Float[Array, "row width"]  # of the context's last token


class TextChooser(LanguageAgent):
    """An agent that writes one of the texts in `actions`.

    The score of a text is the sum of the log-probabilities of its tokens behind what was said, without a token that
    ends it, and the policy is a softmax of scores over `temperature`, which a behaviour may set for each answer by its
    first token's. The context is read once for all texts.
    """

    unused: ClassVar[Unused] = {
        "top_k top_p min_p": "It draws whole texts by their scores",
        "router_balance": "It has a loss of its own",
    }

    actions: tuple[str, ...] = equinox.field(static=True, default=())  # the texts to choose from, such as
    # 'move left,move right'; their tokens and the end are what is written
    tokenizer: str = equinox.field(static=True, default=named.FORAGE)  # that of the environment (`--env.tokenizer`)

    @property
    def table(self) -> tuple[Int[np.ndarray, "text token"], Bool[np.ndarray, "text token"]]:
        """Return the tokens of all texts, padded behind, and a mask of those that are no padding."""
        rows = [named.tokenizer(self.tokenizer).encode(text) for text in self.actions]
        there = np.arange(max(map(len, rows))) < np.array(list(map(len, rows)))[:, None]
        tokens = np.zeros(there.shape, np.int32)
        tokens[there] = np.concatenate(rows)
        return tokens, there

    def check(self, spec: Spec) -> None:
        super().check(spec)
        name = type(self).__name__
        if len(set(self.actions)) < max(len(self.actions), 2) or not all(self.actions):
            raise ForageError(f"{name} chooses among two different texts or more; give --actions 'move left,move up'.")
        known, space = named.tokenizer(self.tokenizer).vocabulary, spec.action_space
        assert isinstance(space, Tokens)
        if known != space.vocabulary - 1:
            raise ForageError(
                f"The tokenizer {self.tokenizer} of {name} has {known} tokens, and that of {spec.name} "
                f"{space.vocabulary - 1}; give both the same, by --tokenizer and --env.tokenizer."
            )
        if (longest := self.table[0].shape[1] + 1) > space.length:
            raise ForageError(
                f"A text of {name} takes {longest} tokens, and {spec.name} has room for {space.length}; give it "
                f"--env.response {longest}."
            )

    def score_actions(self, network: Transformer, state: Any, context: Int[Array, "row time"]) -> TextScores:
        """Return the score of each text after each context, whose tokens count from 1."""
        there, tokens = context != Tokens.PAD, jnp.maximum(context - 1, 0)
        asked, cache = network.extend(network.cache(*tokens.shape), tokens, there)
        last, (table, real) = last_hidden(asked, there), self.table
        texts, length = table.shape
        hidden = jnp.repeat(last, texts, axis=0)[:, None]
        written, mask = (jnp.tile(x, (len(context), 1)) for x in (table, real))
        if length > 1:
            more = network.continue_rows(cache, written[:, :-1], mask[:, :-1], texts)
            hidden = jnp.concatenate([hidden, more], axis=1)

        def score(hidden: Array, token: Array) -> Array:
            return token_value(log_distribution(network.logits(hidden), allowed=state.known), token)

        log_p = self.map_logits(score, network.architecture.vocabulary, (hidden, written))
        return TextScores(jnp.where(mask, log_p, 0).sum(-1).reshape(-1, texts), last)

    def log_policy(
        self, scored: TextScores, state: Any, temperature: Float[Array, "row 1"]
    ) -> Float[Array, "row text"]:
        """Return the log-probability with which each text is chosen; the most probable ones are scored at 1."""
        return jax.nn.log_softmax(scored.scores / jnp.where(temperature < LOWEST, 1.0, temperature))

    def write_answers(
        self,
        state: Any,
        context: Int[Array, "row time"],
        keys: Array,
        temperature: Float[Array, "row new"],
        new: int,
        explore: bool,
        room: Int[Array, " row"] | None = None,
    ) -> tuple[Int[Array, "row new"], Float[Array, "row new"]]:
        """Choose a text for each context; the log-probability of the choice stands at its first token."""
        heat = temperature[:, :1]
        log_p = self.log_policy(self.score_actions(state.network, state, context), state, heat)
        drawn = jax.random.categorical(jax.random.wrap_key_data(keys[0]), log_p)
        chosen = jnp.where(heat[:, 0] < LOWEST, jnp.argmax(log_p, axis=-1), drawn)
        speaks = (context != Tokens.PAD).any(1)[:, None]
        tokens = jnp.where(speaks, self.as_actions(state, new)[chosen], Tokens.PAD)
        first = (jnp.arange(new) == 0) & speaks
        return tokens, jnp.where(first, token_value(log_p, chosen)[:, None], 0.0)

    def as_actions(self, state: Any, new: int) -> Int[Array, "text new"]:
        """Return all texts as actions of `new` columns: tokens count from 1, and an end token stands behind each."""
        table, real = self.table
        end = jnp.atleast_1d(state.end)[0] + 1
        wide = jnp.pad(jnp.where(real, table + 1, Tokens.PAD), ((0, 0), (0, new - table.shape[1])))
        return jnp.where(jnp.arange(new) == real.sum(1)[:, None], end, wide)

    def find_chosen(self, state: Any, action: Int[Array, "row new"]) -> Int[Array, " row"]:
        """Return the number of the text that each action writes; 0 for any other action."""
        return jnp.argmax((action[:, None] == self.as_actions(state, action.shape[1])).all(-1), axis=-1)
