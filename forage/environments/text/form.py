"""The form of texts for a model: templates around them before they become tokens."""

from __future__ import annotations

from typing import NamedTuple

from forage.core.text.tokenizer import Tokenizer


class Form(NamedTuple):
    """A tokenizer, and whether its chat template is applied to texts."""

    tokenizer: Tokenizer
    chat: bool = False  # otherwise a line break ends what is said

    def open_conversation(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a conversation's first text."""
        if self.chat:
            return tuple(self.tokenizer.encode(self.tokenizer.chat([{"role": "user", "content": text}])))
        tokens, opens = tuple(self.tokenizer.encode(text + "\n")), self.tokenizer.opens
        return tokens if tokens[: len(opens)] == opens else (*opens, *tokens)

    def following(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a later text of the conversation, after the end of an answer."""
        if self.chat:
            return tuple(self.tokenizer.encode("\n" + self.tokenizer.chat([{"role": "user", "content": text}])))
        return tuple(self.tokenizer.encode("\n" + text + "\n"))
