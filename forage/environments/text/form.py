"""The form of texts for a model: the tokens that it reads before each of its turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from forage.core.errors import ForageError
from forage.core.text.dialogue import NONE, Dialogue, Message, content_of, prompt_text, turn_end, unused_character
from forage.core.text.tokenizer import Tokenizer

HISTORIES = ("template", "written")


class Context(NamedTuple):
    """The text that a policy reads before a turn."""

    tokens: tuple[int, ...]
    dialogue: Dialogue | None = None  # the messages behind it; `None` without a chat template
    text: str = ""  # as the template writes it
    altered: bool = False  # it does not begin with the context of the turn before and the answer to it


PROMPT_END = "\n"
"""The text behind a prompt where no chat template is applied; rows of recorded text have it too."""


class Form(NamedTuple):
    """A tokenizer, whether its chat template is applied to texts, and how."""

    tokenizer: Tokenizer
    chat: bool = False  # otherwise a line break ends each text that is not the policy's
    system: str = ""  # the first message of a conversation that has no system message
    tools: tuple[Mapping[str, Any], ...] = ()  # JSON schemas of functions that the template shows
    variables: Mapping[str, Any] = NONE  # further names that the template asks for, such as enable_thinking
    date: str | None = None  # that the template writes, as 2026-12-31
    history: str = HISTORIES[0]  # of earlier turns: as the template shows them, or the tokens as they were written

    @property
    def stop(self) -> tuple[int, ...]:
        """All tokens that end an answer, the template's own first."""
        own = turn_end(self.tokenizer, self.tokenizer.template) if self.chat else None
        first = () if own is None else (self.tokenizer.special[own],)
        return tuple(dict.fromkeys((*first, *self.tokenizer.ends)))

    def begin(self, prompt: str | Dialogue) -> Context:
        """Return the first context of a conversation."""
        if not self.chat:
            if not isinstance(prompt, str):
                raise ForageError("Prompts of messages need a chat template; give --env.chat true.")
            tokens, opens = tuple(self.tokenizer.encode(prompt + PROMPT_END)), self.tokenizer.opens
            return Context(tokens if tokens[: len(opens)] == opens else (*opens, *tokens))
        asked = Dialogue(({"role": "user", "content": prompt},)) if isinstance(prompt, str) else prompt
        if self.system and asked.messages[0]["role"] != "system":
            asked = asked._replace(messages=({"role": "system", "content": self.system}, *asked.messages))
        asked = Dialogue(
            asked.messages, asked.tools or self.tools, {**self.variables, **asked.variables}, asked.date or self.date
        )
        text = prompt_text(self.tokenizer, asked)
        return Context(tuple(self.tokenizer.encode(text)), asked, text)

    def extend(self, context: Context, answer: Sequence[int], reply: str | Sequence[Message]) -> Context:
        """Return the context after an answer and the reply to it.

        An answer stays as its tokens wherever the template leaves it and all before it as they are. Where it does not,
        all is encoded as the template writes it, unless `history` is `written`.
        """
        written = tuple(answer)
        closed = bool(written) and written[-1] in self.stop
        bare = written[:-1] if closed else written
        if context.dialogue is None:
            text = reply if isinstance(reply, str) else "\n".join(map(content_of, reply))
            ended = written if closed else (*written, self.stop[0])
            return Context((*context.tokens, *ended, *self.tokenizer.encode("\n" + text + "\n")))
        said = ({"role": "user", "content": reply},) if isinstance(reply, str) else tuple(reply)
        own, before = self.answer_text(bare), context.dialogue
        begun, last = "", before.messages[-1]
        if last["role"] == "assistant":  # the policy went on with an answer that was begun for it
            begun, before = content_of(last), before._replace(messages=before.messages[:-1])
        now = before.add({"role": "assistant", "content": begun + own}, *said)
        whole, between = now.text(self.tokenizer, answer=True), self.text_between(before, said)
        if self.history == "written":
            return Context((*context.tokens, *self.close(written, between)), now, whole)
        if between is None or not keeps(context.text, own, between, whole):
            return Context(tuple(self.tokenizer.encode(whole)), now, whole, altered=True)
        return Context((*context.tokens, *bare, *self.tokenizer.encode(between)), now, whole)

    def close(self, written: Sequence[int], between: str | None) -> tuple[int, ...]:
        """Return the tokens of an answer, unchanged, and the template's text up to the next one."""
        if between is None:
            raise ForageError(
                "The chat template leaves out earlier answers, so that they cannot stay as they were written; leave "
                "out --env.history written."
            )
        following = tuple(self.tokenizer.encode(between))
        if written and written[-1] in self.stop and self.stop[0] in following:
            # The answer's own end stands for the template's.
            place = following.index(self.stop[0])
            following = following[0 if self.answer_text(following[:place]).strip() else place + 1 :]
        return (*written, *following)

    def answer_text(self, tokens: Sequence[int]) -> str:
        """Return the text of an answer without the tokens that end it."""
        return self.tokenizer.decode([token for token in tokens if token not in self.stop], special=True)

    def text_between(self, before: Dialogue, said: Sequence[Message]) -> str | None:
        """Return the template's text between an answer and the next; `None` if it leaves the answer out."""
        mark = unused_character(before.add(*said))
        asked = before.add({"role": "assistant", "content": mark}, *said)
        _, found, after = asked.text(self.tokenizer, answer=True).partition(mark)
        return after if found else None


def keeps(before: str, answer: str, between: str, whole: str) -> bool:
    """Return whether a text is the one before it, an answer, perhaps without white space around it, and the rest."""
    inner = whole[len(before) : len(whole) - len(between)]
    fits = whole.startswith(before) and whole.endswith(between) and len(whole) >= len(before) + len(between)
    return fits and inner.strip() == answer.strip() and inner in answer


def read_variables(given: Mapping[str, Any] | str | None, thinking: bool | None) -> dict[str, Any]:
    """Return the names that a chat template is given: from a mapping, or its JSON, and `enable_thinking`."""
    found: Any = given or {}
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            raise ForageError(
                f'Names for a chat template are JSON such as {{"enable_thinking": false}}, unlike {given!r}.'
            ) from None
    if not isinstance(found, Mapping):
        raise ForageError(f'Names for a chat template are a mapping as {{"enable_thinking": false}}, unlike {given!r}.')
    return dict(found) | ({} if thinking is None else {"enable_thinking": thinking})
