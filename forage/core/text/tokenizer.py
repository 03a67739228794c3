"""The contract of tokenizers, and the base of Forage's own.

Our own write `tokenizer.json` and `tokenizer_config.json` in the form that Hugging Face's `tokenizers` and transformers
read, and read it without either.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from forage.core.errors import ForageError

PAD, END = "<|pad|>", "<|end|>"
"""The first two tokens of Forage's own tokenizers, 0 and 1: the padding of a row, and the end of a text."""
OWN = "forage_tokenizer"  # the entry of tokenizer_config.json that names the kind of one of ours


class Tokenizer:
    """Turns text into token ids and back."""

    vocabulary: int  # ids, from 0 to vocabulary - 1
    special: dict[str, int]  # tokens that are no text, by their names
    pad: int | None = None  # fills a row
    end: int | None = None  # ends a text
    ends: tuple[int, ...] = ()  # all that end one, `end` first: a model may have several
    begin: int | None = None  # begins one
    opens: tuple[int, ...] = ()  # put before a text that no template makes: `begin`, where the tokenizer does so
    template: str | None = None  # what makes one text of a dialogue, for Jinja
    hides_special: bool = False  # what reward functions read of an answer is without the names of special tokens

    @staticmethod
    def load(directory: str | Path) -> Tokenizer:
        """Read the tokenizer of a directory: one of Forage's, or any that has a `tokenizer.json` (extra `language`).

        The tokens that end a text are its own and those that the model's files beside it name (`eos_token_id`).

        Raise `ForageError` in one sentence for a directory without one, and for a file that cannot be read.
        """
        from forage.core.text import hugging_face, own

        directory = Path(directory)
        if not (directory / "tokenizer.json").exists():
            raise ForageError(f"{directory} holds no tokenizer: it has no tokenizer.json.")
        config = read_json(directory / "tokenizer_config.json")
        found = own.read_tokenizer(directory, config) if config.get(OWN) else hugging_face.HuggingFace(directory)
        named = named_ends(*(read_json(directory / f"{name}.json") for name in ("generation_config", "config")))
        ends = [*([] if found.end is None else [found.end]), *(one for one in named if 0 <= one < found.vocabulary)]
        found.ends = tuple(dict.fromkeys(ends))
        found.end = found.ends[0] if found.ends else None
        return found

    def encode(self, text: str, around: bool = False) -> list[int]:
        """Return the tokens of a text, in which names of special tokens are those tokens.

        `around`: with the tokens that the tokenizer puts around a text, such as one that begins it.
        """
        raise NotImplementedError

    def encode_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the tokens of a text, and the range of characters that each token covers."""
        raise NotImplementedError

    def decode(self, tokens: Iterable[int], special: bool = False) -> str:
        """Return the text of tokens. `special`: with the names of special ones, which are left out otherwise."""
        raise NotImplementedError

    def save(self, directory: str | Path) -> Path:
        """Write the tokenizer's files to a directory, which may hold a transformer, and return it."""
        raise NotImplementedError

    def chat(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]] | None = None,
        answer: bool = True,
        date: str | None = None,
        **more: Any,
    ) -> str:
        """Return the text of a dialogue by the chat template (extra `language`).

        Args:
            messages: Each has a `role`, such as user, and `content`.
            tools: What the model may call, for templates that say so.
            answer: Whether the text ends where the model's answer begins.
            date: The date that a template writes, as 2026-12-31; the present one if it is missing.
            more: Further names that the template asks for, such as `enable_thinking`.

        Raise `ForageError` in one sentence where there is no template, and where it refuses the messages.
        """
        from forage.core.text import chat

        if self.template is None:
            raise ForageError(
                "This tokenizer has no chat template; hand it text, or write a chat_template.jinja beside its files."
            )
        names = {"pad": self.pad, "eos": self.end, "bos": self.begin}
        by_id = {number: name for name, number in self.special.items()}
        tokens = {f"{name}_token": by_id[number] for name, number in names.items() if number in by_id}
        return chat.render(self.template, messages, tools, answer, {**tokens, **more}, date)


def named_ends(generation: dict[str, Any] | None, config: dict[str, Any] | None) -> tuple[int, ...]:
    """Return the tokens that end a text, as `generation_config.json` names them, or else `config.json`."""
    for part in (generation, config):
        found = (part or {}).get("eos_token_id")
        if found is not None:
            return tuple(found) if isinstance(found, list) else (found,)
    return ()


class OwnTokenizer(Tokenizer):
    """The base of Forage's tokenizers: special tokens come first, then pieces of text."""

    kind: str

    def __init__(self, pieces: int, special: Sequence[str], template: str | None):
        """`pieces`: the number of tokens of text. `special`: names of tokens besides those that fill and end."""
        names = [PAD, END, *special]
        if len(set(names)) < len(names) or not all(names):
            raise ForageError(f"Names of special tokens differ, and none is empty, {PAD} or {END}: {list(special)}.")
        self.special = {name: number for number, name in enumerate(names)}
        self.pad, self.end, self.ends, self.template = 0, 1, (1,), template
        self.vocabulary = len(names) + pieces
        longest_first = sorted(names, key=len, reverse=True)
        self._special = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def encode(self, text: str, around: bool = False) -> list[int]:
        tokens: list[int] = []
        for number, part in enumerate(self._special.split(text)):
            tokens += [self.special[part]] if number % 2 else self.pieces(part)
        return [*tokens, 1] if around else tokens

    def decode(self, tokens: Iterable[int], special: bool = False) -> str:
        names, text, run = list(self.special), [], []
        for token in map(int, tokens):
            if not 0 <= token < self.vocabulary:
                raise ForageError(f"There is no token {token}; this tokenizer has {self.vocabulary}.")
            if token >= len(names):
                run.append(token - len(names))
            elif special:
                text += [self.text(run), names[token]]
                run = []
        return "".join([*text, self.text(run)])

    def encode_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        tokens = self.encode(text)
        names = list(self.special)
        sizes = [
            len(names[token].encode() if token < len(names) else self.piece_bytes(token - len(names)))
            for token in tokens
        ]
        ends = list(itertools.accumulate(sizes))
        # The character of each byte: a token may be a part of one.
        owner = [place for place, character in enumerate(text) for _ in character.encode()]
        return tokens, [(owner[end - size], owner[end - 1] + 1) for size, end in zip(sizes, ends, strict=True)]

    def pieces(self, text: str) -> list[int]:
        """Return the tokens of a text without special ones."""
        raise NotImplementedError

    def piece_bytes(self, piece: int) -> bytes:
        """Return the bytes of a piece, which are counted from 0."""
        raise NotImplementedError

    def text(self, pieces: list[int]) -> str:
        """Return the text of pieces, which are counted from 0."""
        raise NotImplementedError

    def model(self) -> dict[str, Any]:
        """Return the entries of `tokenizer.json` about the pieces: the model, and the steps before and after it."""
        raise NotImplementedError

    def save(self, directory: str | Path) -> Path:
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        added = [
            {"id": number, "content": name, "special": True}
            | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            for name, number in self.special.items()
        ]
        data: dict[str, Any] = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": None,
        }
        # What is put around a text here is its end.
        single = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": END, "type_id": 0}}]
        pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": END, "type_id": 1}}]
        ends = {END: {"id": END, "ids": [1], "tokens": [END]}}
        data["post_processor"] = {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": ends}
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": PAD,
            "eos_token": END,
            "additional_special_tokens": list(self.special)[2:],
            "clean_up_tokenization_spaces": False,
            "model_max_length": 10**30,
            OWN: self.kind,
        }
        write_json(directory / "tokenizer.json", data | self.model())
        write_json(directory / "tokenizer_config.json", config)
        if self.template is not None:
            (directory / "chat_template.jinja").write_text(self.template, encoding="utf-8")
        return directory


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a file, empty if it is missing. Raise `ForageError` for a file that is no JSON object."""
    return read_object(path) if path.exists() else {}


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file. Raise `ForageError` for a file that is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ForageError(f"{path} is no JSON: {error}.") from None
    if not isinstance(found, dict):
        raise ForageError(f"{path} holds no JSON object, but {json.dumps(found)[:40]}.")
    return found


def write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_template(directory: Path, config: dict[str, Any]) -> str | None:
    """Return the chat template of a directory, the default one where there are several."""
    file = directory / "chat_template.jinja"
    if file.exists():
        return file.read_text(encoding="utf-8")
    found = config.get("chat_template")
    if isinstance(found, list):
        found = {entry["name"]: entry["template"] for entry in found}.get("default")
    return found
