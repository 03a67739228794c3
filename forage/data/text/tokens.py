"""Rows of text as tokens, with a mask of the tokens that are learned from, as in TRL 1.16.

A row becomes one text, or for a preference two, the chosen one first. Prompt and answer are encoded together, and the
answer begins where the tokens of the prompt alone end or differ. A text that no template makes ends with the
tokenizer's end token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from forage.core.text.dialogue import Dialogue, encode_dialogue, encode_prompt
from forage.core.text.tokenizer import Tokenizer
from forage.core.types import ForageError
from forage.data.text.rows import TextRows

SEPARATOR = "\n"
"""The text behind each step of an answer, unless another is set."""


class TokenText(NamedTuple):
    """A text as token ids, and whether each token is learned from."""

    tokens: list[int]
    wrote: list[bool]
    steps: list[int] = []  # of each token: 1 where a wrong step ends, 2 where a right one, else 0


@dataclasses.dataclass(frozen=True)
class TokenRows:
    """The rows of a file as arrays. Token ids count from 1, and 0 pads a text behind its end."""

    text: Int[np.ndarray, "row answer time"]
    wrote: Bool[np.ndarray, "row answer time"]  # tokens that are learned from
    label: Float[np.ndarray, " row"]  # 1 for a wanted answer, 0 for another; or its reward
    margin: Float[np.ndarray, " row"]  # by how much the chosen answer is better, where the file says so
    begin: Int[np.ndarray, "row answer time"] | None = None  # the place in its row at which each token's text begins,
    # where a row holds several texts
    step: Int[np.ndarray, "row answer time"] | None = None  # 1 where a wrong step ends, 2 where a right one, else 0
    dropped: int = 0  # rows that were too long
    apart: int = 0  # rows whose prompt alone has other tokens than at the beginning of the whole

    def __len__(self) -> int:
        return len(self.text)

    def select(self, rows: Any) -> TokenRows:
        """Return some rows, by a mask or by number."""
        columns = ["text", "wrote", "label", "margin", *(n for n in ("begin", "step") if getattr(self, n) is not None)]
        return dataclasses.replace(self, **{name: getattr(self, name)[rows] for name in columns})

    @property
    def longest_answer(self) -> int:
        """Return the largest number of tokens of a text that are learned from."""
        return int(self.wrote.sum(-1).max(initial=1))


class RowEncoder:
    """Encodes rows with a tokenizer."""

    def __init__(self, tokenizer: Tokenizer, only_answers: bool = True, separator: str = SEPARATOR) -> None:
        """`only_answers`: of whole dialogues the assistant's words alone are learned from."""
        self.tokenizer, self.only_answers = tokenizer, only_answers
        self.separator = tokenizer.encode(separator.replace("\\n", "\n"))
        if tokenizer.end is None:
            raise ForageError("The tokenizer has no token that ends a text, and without one none can end.")
        self.end_name = {number: name for name, number in tokenizer.special.items()}.get(tokenizer.end, "")
        self.apart = 0

    def encode_row(self, row: Mapping[str, Any], kind: str) -> list[TokenText]:
        """Return the texts of a row of a kind: one, or the chosen and the rejected one."""
        if kind == "text":
            whole = self.encode_text(self.with_end(row["text"]))
            return [TokenText(whole, [True] * len(whole))]
        if kind == "messages":
            return [self.encode_messages(row)]
        if kind == "steps":
            return [self.encode_steps(row)]
        answers = ("chosen", "rejected") if kind == "preference" else ("completion",)
        return self.encode_answers(row, *(row[name] for name in answers))

    def encode_text(self, text: str) -> list[int]:
        """Return the tokens of a text that no template makes, behind the token that begins one, if there is one."""
        tokens, opens = self.tokenizer.encode(text), list(self.tokenizer.opens)
        return tokens if tokens[: len(opens)] == opens else [*opens, *tokens]

    def with_end(self, text: str) -> str:
        """Return a text that ends with the end token's name."""
        return text if not self.end_name or text.endswith(self.end_name) else text + self.end_name

    def encode_answers(self, row: Mapping[str, Any], *answers: Any) -> list[TokenText]:
        """Return a prompt with each of several answers to it, of which the answers are learned from.

        An answer begins where its text and the prompt alone have different tokens, of several the first such place.
        """
        prompt = row["prompt"]
        if isinstance(prompt, str):
            before = self.encode_text(prompt)
            texts = [self.encode_text(prompt + self.with_end(answer)) for answer in answers]
        else:
            before = encode_prompt(self.tokenizer, dialogue_of(row, prompt)) if prompt else ()
            whole = [dialogue_of(row, [*prompt, *answer]).text(self.tokenizer) for answer in answers]
            texts = [self.tokenizer.encode(text) for text in whole]
        begin = min(common_beginning(before, text) for text in texts)
        self.apart += begin < len(before)
        return [TokenText(text, [i >= begin for i in range(len(text))]) for text in texts]

    def encode_steps(self, row: Mapping[str, Any]) -> TokenText:
        """Return a prompt and the steps of an answer, each encoded alone and followed by the separator.

        The last token of each step is learned from. These are the tokens of TRL's `PRMTrainer`.
        """
        prompt, begin = row["prompt"], self.tokenizer.begin
        if isinstance(prompt, str):
            tokens = [*([] if begin is None else [begin]), *self.tokenizer.encode(prompt)]
        else:
            tokens = [*encode_prompt(self.tokenizer, dialogue_of(row, prompt))]
        steps = [0] * len(tokens)
        for step, label in zip(row["completions"], row["labels"], strict=True):
            own = [*self.tokenizer.encode(step), *self.separator]
            tokens += own
            steps += [0] * (len(own) - 1) + [1 + bool(label)]
        return TokenText(tokens, [one > 0 for one in steps], steps)

    def encode_messages(self, row: Mapping[str, Any]) -> TokenText:
        """Return a dialogue, of which the assistant's words are learned from, or all."""
        found = encode_dialogue(self.tokenizer, dialogue_of(row, row["messages"]))
        return TokenText([*found.tokens], [*found.assistant] if self.only_answers else [True] * len(found.tokens))


def common_beginning(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of tokens that two texts have in common at their beginning."""
    shorter = min(len(one), len(other))
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)


def dialogue_of(row: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> Dialogue:
    """Return messages with the tools and the variables of the template that a row has."""
    return Dialogue.parse(messages, row.get("tools"), row.get("chat_template_kwargs"))


def encode_rows(rows: TextRows, encoder: RowEncoder, longest: int, others: bool = False) -> TokenRows:
    """Return all rows as tokens, without those of more than `longest` tokens.

    `others`: a preference becomes two rows, a wanted answer and another, and behind each row's text stands its prompt
    with the answer of the next row. Raise `ForageError` if no row is left.
    """
    rows = unpair_rows(rows) if others else rows
    found: list[list[TokenText]] = []
    kept: list[int] = []
    for number, (row, place) in enumerate(zip(rows.rows, rows.places, strict=True)):
        try:
            texts = encoder.encode_row(row, rows.kind)
            if others:
                following = rows.rows[(number + 1) % len(rows.rows)]
                texts += encoder.encode_answers(row, following["completion"])
        except ForageError as error:
            raise ForageError(f"{rows.source}, {place}: {error}") from None
        if all(len(text.tokens) <= longest for text in texts):
            if not all(any(text.wrote[1:]) for text in texts):
                raise ForageError(f"{rows.source} has an answer without tokens in {place}; remove it.")
            found.append(texts)
            kept.append(number)
    dropped = len(rows.rows) - len(found)
    if not found:
        raise ForageError(
            f"All {dropped:,} rows of {rows.source} have more than {longest:,} tokens; give a larger --longest."
        )
    shape = len(found), len(found[0]), max(len(text.tokens) for texts in found for text in texts)
    text, wrote, step = np.zeros(shape, np.int32), np.zeros(shape, bool), np.zeros(shape, np.int32)
    for i, texts in enumerate(found):
        for j, one in enumerate(texts):
            step[i, j, : len(one.steps)] = one.steps
            text[i, j, : len(one.tokens)] = np.array(one.tokens, np.int32) + 1
            wrote[i, j, : len(one.wrote)] = one.wrote
    name = "reward" if rows.kind == "scored" else "label"
    label = np.array([float(rows.rows[i].get(name, 1.0)) for i in kept], np.float32)
    margin = np.array([read_margin(rows, i) for i in kept], np.float32)
    steps = step if rows.kind == "steps" else None
    return TokenRows(text, wrote, label, margin, step=steps, dropped=dropped, apart=encoder.apart)


def pack_rows(rows: TokenRows, longest: int) -> TokenRows:
    """Return rows that hold several texts, one after another, of `longest` tokens together at most.

    Texts are taken from the longest to the shortest, each into the fullest row that has room for it (best fit, as in
    TRL). No token of a text is learned from the text before it, so a text's first token is not learned from.
    """
    lengths = (rows.text[:, 0] > 0).sum(-1)
    bins: list[list[int]] = []
    room: list[int] = []
    for row in np.argsort(-lengths, kind="stable"):
        fitting = [i for i, left in enumerate(room) if left >= lengths[row]]
        if fitting:
            at = min(fitting, key=room.__getitem__)
        else:
            at = len(bins)
            bins.append([])
            room.append(longest)
        bins[at].append(int(row))
        room[at] -= int(lengths[row])
    shape = len(bins), 1, longest - min(room)
    text, begin, wrote = np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, bool)
    for number, members in enumerate(bins):
        at = 0
        for row in members:
            until = at + int(lengths[row])
            text[number, 0, at:until] = rows.text[row, 0, : until - at]
            wrote[number, 0, at + 1 : until] = rows.wrote[row, 0, 1 : until - at]
            begin[number, 0, at:until] = at
            at = until
    none = np.zeros(len(bins), np.float32)
    return dataclasses.replace(rows, text=text, wrote=wrote, begin=begin, label=none + 1, margin=none)


def read_margin(rows: TextRows, number: int) -> float:
    """Return the margin of a preference, 0 without one. Raise `ForageError` if it is no number."""
    given = rows.rows[number].get("margin", 0.0) if rows.kind == "preference" else 0.0
    try:
        return float(given)
    except (TypeError, ValueError):
        raise ForageError(
            f"{rows.source} has the margin {given!r} in {rows.places[number]}, which is no number."
        ) from None


def unpair_rows(rows: TextRows) -> TextRows:
    """Return preferences as rows of one answer with a label, the chosen one first; other rows as they are."""
    if rows.kind != "preference":
        return rows
    split, places = [], []
    for row, place in zip(rows.rows, rows.places, strict=True):
        rest = {name: value for name, value in row.items() if name not in ("chosen", "rejected")}
        for name, label in (("chosen", True), ("rejected", False)):
            split.append({**rest, "completion": row[name], "label": label})
            places.append(place)
    return dataclasses.replace(rows, kind="label", rows=split, places=places)
