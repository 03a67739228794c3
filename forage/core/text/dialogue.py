"""Dialogues as tokens: messages by a chat template, and the tokens that the assistant wrote.

Tokens of a whole dialogue are those of transformers' `apply_chat_template`. The assistant's tokens are those within the
template's `{% generation %}` marks. A template without marks is asked for the prompt of each answer: what follows the
prompt, up to the token that ends the turn, is the answer.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from forage.core.errors import ForageError
from forage.core.text import chat
from forage.core.text.tokenizer import Tokenizer

Message = Mapping[str, Any]
NONE: Mapping[str, Any] = MappingProxyType({})
FOREIGN = range(0xFDD0, 0xFDF0)  # code points that Unicode keeps free of characters, for marks in a text


class Dialogue(NamedTuple):
    """Messages, and the further values that a chat template is given."""

    messages: tuple[Message, ...]  # each with a role, such as user, and its content
    tools: tuple[Mapping[str, Any], ...] = ()  # JSON schemas of functions that may be called
    variables: Mapping[str, Any] = NONE  # further names that the template asks for, such as enable_thinking
    date: str | None = None  # that the template writes, as 2026-12-31; the present one if it is missing

    @staticmethod
    def parse(
        messages: Any, tools: Any = None, variables: Mapping[str, Any] | None = None, date: str | None = None
    ) -> Dialogue:
        """Read the dialogue of messages as files hold them. Raise `ForageError` for other values.

        Entries that are `None` are left out, as files with columns fill in what a message lacks.
        """
        if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
            raise ForageError(
                f'Messages are a list of {{"role": ..., "content": ...}} with one or more, and not {messages!r:.80}.'
            )
        for name, value, kind in (("tools", tools, Sequence), ("variables of a chat template", variables, Mapping)):
            if value is not None and (isinstance(value, str) or not isinstance(value, kind)):
                word = "list of JSON schemas" if kind is Sequence else "mapping from names to values"
                raise ForageError(f"The {name} are a {word}, and not {value!r:.80}.")
        if taken := sorted({"messages", "tools", "answer", "date"} & set(variables or {})):
            raise ForageError(f"A chat template is given {taken[0]} already; leave it out of its variables.")
        return Dialogue(tuple(map(read_message, messages)), tuple(tools or ()), dict(variables or {}), date)

    def add(self, *messages: Message) -> Dialogue:
        """Return the dialogue with more messages."""
        return self._replace(messages=(*self.messages, *messages))

    def text(self, tokenizer: Tokenizer, answer: bool = False) -> str:
        """Return the dialogue as one text. `answer`: up to where the next answer begins."""
        return tokenizer.chat(self.messages, self.tools or None, answer, self.date, **self.variables)  # type: ignore


class EncodedDialogue(NamedTuple):
    """A dialogue as tokens."""

    tokens: tuple[int, ...]
    assistant: tuple[bool, ...]  # of each token, whether the assistant wrote it; the end of its turn included


def read_message(message: Any) -> Message:
    """Return one message, without entries that are `None`. Raise `ForageError` for other values."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise ForageError(f'A message has a role and its content, as {{"role": "user", ...}}, unlike {message!r:.80}.')
    content = message.get("content")
    parts = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    if content is not None and not isinstance(content, str) and not isinstance(content, Sequence):
        raise ForageError(f"The content of a message is a text, and not {content!r:.80}.")
    for part in parts:
        if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
            kind = part.get("type", "none") if isinstance(part, Mapping) else part
            raise ForageError(f"Messages are read as text, and one has a part of another kind, {kind!r:.80}.")
    return {name: value for name, value in message.items() if value is not None or name == "content"}


def encode_prompt(tokenizer: Tokenizer, dialogue: Dialogue) -> tuple[int, ...]:
    """Return the tokens of the prompt for the assistant's next answer. See `prompt_text`."""
    return tuple(tokenizer.encode(prompt_text(tokenizer, dialogue)))


def prompt_text(tokenizer: Tokenizer, dialogue: Dialogue) -> str:
    """Return the prompt for the assistant's next answer, or for the rest of a last message that is its own."""
    last = dialogue.messages[-1]
    if last["role"] != "assistant":
        return dialogue.text(tokenizer, answer=True)
    mark = unused_character(dialogue)
    text = replace_content(dialogue, len(dialogue.messages) - 1, f"{content_of(last)}{mark}").text(tokenizer)
    if mark not in text:
        raise ForageError("The chat template leaves out the assistant's last message, which was to be continued.")
    return text[: text.index(mark)]


def encode_dialogue(tokenizer: Tokenizer, dialogue: Dialogue) -> EncodedDialogue:
    """Return the tokens of a whole dialogue, and which of them the assistant wrote."""
    text, ranges = assistant_ranges(tokenizer, dialogue)
    tokens, spans = tokenizer.encode_spans(text)
    return EncodedDialogue(tuple(tokens), tuple(token_mask(spans, ranges)))


def token_mask(spans: Sequence[tuple[int, int]], ranges: Sequence[tuple[int, int]]) -> list[bool]:
    """Return for each token whether it covers a character of one of some ranges; both are in order."""
    found, at = [], 0
    for begin, end in spans:
        while at < len(ranges) and ranges[at][1] <= begin:
            at += 1
        found.append(at < len(ranges) and begin < end and ranges[at][0] < end)
    return found


def assistant_ranges(tokenizer: Tokenizer, dialogue: Dialogue) -> tuple[str, list[tuple[int, int]]]:
    """Return a dialogue as one text, and the ranges of characters that the assistant wrote, in order."""
    places = [place for place, message in enumerate(dialogue.messages) if message["role"] == "assistant"]
    marked = marked_ranges(tokenizer, dialogue) if places and "generation" in (tokenizer.template or "") else None
    if marked is not None:
        return marked
    text, found = dialogue.text(tokenizer), []
    names, closed = end_names(tokenizer), turn_end(tokenizer, tokenizer.template) is not None
    for place in places:
        begin = answer_begin(tokenizer, dialogue, text, place)
        ends = [at + len(name) for name in names if (at := text.find(name, begin)) >= 0] if closed else []
        if not ends:
            end = content_range(tokenizer, dialogue, text, place)[1]
            ends = [end + len(name) for name in names if text.startswith(name, end)] or [end]
        found.append((begin, min(ends)))
    lost = any(
        end <= begin and content_of(dialogue.messages[at]).strip()
        for at, (begin, end) in zip(places, found, strict=True)
    )
    if lost or any(earlier[1] > later[0] for earlier, later in itertools.pairwise(found)):
        raise ForageError(
            "It cannot be told which tokens of these messages the assistant wrote, as their chat template leaves out "
            "an answer or does not end it; put {% generation %} and {% endgeneration %} around the answers in it."
        )
    return text, found


def marked_ranges(tokenizer: Tokenizer, dialogue: Dialogue) -> tuple[str, list[tuple[int, int]]] | None:
    """Return the text and the assistant's ranges by a template's own marks; `None` without a mark."""
    begin, end = unused_character(dialogue), unused_character(dialogue, 1)
    text = dialogue._replace(variables={**dialogue.variables, chat.BEGIN: begin, chat.END: end}).text(tokenizer)
    pieces, ranges, length = [], [], 0
    for number, part in enumerate(text.split(begin)):
        own, _, rest = part.partition(end) if number else ("", "", part)
        if own:
            ranges.append((length, length + len(own)))
        pieces += [own, rest]
        length += len(own) + len(rest)
    return ("".join(pieces), ranges) if ranges else None


def answer_begin(tokenizer: Tokenizer, dialogue: Dialogue, text: str, place: int) -> int:
    """Return the place of an assistant's message in the text of the dialogue, behind the prompt that asks for it."""
    if not place:
        return content_range(tokenizer, dialogue, text, place)[0]
    prompt = dialogue._replace(messages=dialogue.messages[:place]).text(tokenizer, answer=True)
    begin = common_length(text, prompt)
    if begin == len(prompt):
        return begin
    # A template may write an answer without the end of its prompt, such as an empty thought; or it altered messages
    # before it, and then the prompt tells nothing.
    own = content_range(tokenizer, dialogue, text, place)[0]
    altered = begin < content_range(tokenizer, dialogue, text, place - 1)[1]
    return own if altered else min(begin, own)


def content_range(tokenizer: Tokenizer, dialogue: Dialogue, text: str, place: int) -> tuple[int, int]:
    """Return the range of the text that depends on a message's content."""
    mark = unused_character(dialogue)
    other = replace_content(dialogue, place, mark).text(tokenizer)
    begin = common_length(text, other)
    return begin, len(text) - common_length(text[begin:][::-1], other[begin:][::-1])


def common_length(one: str, other: str) -> int:
    """Return the length of the longest common beginning of two texts."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def replace_content(dialogue: Dialogue, place: int, content: str) -> Dialogue:
    """Return a dialogue with another content of one message, in the form that it had."""
    message = dialogue.messages[place]
    is_text = message.get("content") is None or isinstance(message["content"], str)
    new = {**message, "content": content if is_text else [{"type": "text", "text": content}]}
    return dialogue._replace(messages=(*dialogue.messages[:place], new, *dialogue.messages[place + 1 :]))


def add_words(prompt: str | Dialogue, words: str, space: str = " ") -> str | Dialogue:
    """Return a text with words behind it, or a dialogue with them behind its last message."""
    if isinstance(prompt, str):
        return f"{prompt}{space}{words}"
    last = len(prompt.messages) - 1
    return replace_content(prompt, last, f"{content_of(prompt.messages[last])}{space}{words}")


def content_of(message: Message) -> str:
    """Return the content of a message as a text; its parts one after the other."""
    content = message.get("content")
    return content if isinstance(content, str) else "".join(part["text"] for part in content or ())


def unused_character(dialogue: Dialogue, number: int = 0) -> str:
    """Return a mark that no text of a dialogue contains."""
    known = repr(dialogue.messages) + repr(dialogue.tools) + repr(dict(dialogue.variables))
    free = [sign for sign in map(chr, FOREIGN) if sign not in known and f"\\u{ord(sign):x}" not in known]
    if number >= len(free):
        raise ForageError("A dialogue contains all code points that Unicode keeps free, and no mark is left for it.")
    return free[number]


@functools.lru_cache(maxsize=16)
def turn_end(tokenizer: Tokenizer, template: str | None) -> str | None:
    """Return the name of the special token by which a template ends an assistant's turn; `None` if it has none.

    `template`: the tokenizer's present one, as it can be replaced.
    """
    mark = chr(FOREIGN[0])
    for form in (str, lambda text: [{"type": "text", "text": text}]):  # templates of models that see have parts
        asked = Dialogue(({"role": "user", "content": form("a")}, {"role": "assistant", "content": form(mark)}))
        try:
            ended = asked.text(tokenizer).partition(mark)[2]
            then = asked.add({"role": "user", "content": form("b")}).text(tokenizer).partition(mark)[2]
        except ForageError:
            continue
        if (found := first_special(tokenizer, ended)) is not None:
            return found
        # The next message's begin may be what ends this one, where the model's files say so.
        found = first_special(tokenizer, then)
        return found if found is not None and tokenizer.special[found] in tokenizer.ends else None
    return None


def first_special(tokenizer: Tokenizer, text: str) -> str | None:
    """Return the name of the first special token of a text."""
    names = {number: name for name, number in tokenizer.special.items()}
    return next((names[token] for token in tokenizer.encode(text) if token in names), None)


def end_names(tokenizer: Tokenizer) -> list[str]:
    """Return the names of all tokens that end an assistant's turn, the template's own first."""
    names = {number: name for name, number in tokenizer.special.items()}
    own = turn_end(tokenizer, tokenizer.template)
    return list(dict.fromkeys([*([own] if own else []), *(names[one] for one in tokenizer.ends if one in names)]))
