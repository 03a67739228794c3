"""Tokenizers without dependencies: characters, bytes, and byte pairs that are learned here.

Byte pairs are those of Sennrich, Haddow, Birch (2016), "Neural Machine Translation of Rare Words with Subword Units",
arXiv 1508.07909: the pair of neighbours that is most frequent within words becomes a token, again and again. Words are
of bytes, as in GPT-2 (Radford et al., 2019), so every text has tokens. Neither paper could be opened here.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from forage.core.errors import ForageError
from forage.core.text.tokenizer import OwnTokenizer, Tokenizer, read_json, read_template

WORD = r" ?[A-Za-z]+|[0-9]| ?[^ \t\r\nA-Za-z0-9]+|[ \t\r\n]+"
"""The units within which pairs are merged: a word with the space before it, one digit, other signs, white space."""
Pair = tuple[int, int]


def alphabet() -> list[str]:
    """Return a visible character for each byte, as in GPT-2's files: itself where visible, else one from 256 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(others)) for byte in range(256)]


class Characters(OwnTokenizer):
    """A token for each of the characters that it is given."""

    kind = "characters"

    def __init__(self, characters: Iterable[str], special: Sequence[str] = (), template: str | None = None):
        """`characters`: the alphabet of all texts, such as one text that has them all; their order has no effect."""
        self.characters = sorted(set("".join(characters)))
        if not self.characters:
            raise ForageError("A tokenizer of characters needs a character.")
        super().__init__(len(self.characters), special, template)
        self._number = {character: number for number, character in enumerate(self.characters, len(self.special))}

    def pieces(self, text: str) -> list[int]:
        try:
            return [self._number[character] for character in text]
        except KeyError as error:
            raise ForageError(
                f"This tokenizer has no token for {error}; its characters are {''.join(self.characters)!r}."
            ) from None

    def text(self, pieces: list[int]) -> str:
        return "".join(self.characters[piece] for piece in pieces)

    def piece_bytes(self, piece: int) -> bytes:
        return self.characters[piece].encode()

    def model(self) -> dict[str, Any]:
        return {
            "pre_tokenizer": None,
            "decoder": {"type": "Fuse"},
            "model": byte_pair_model({**self.special, **self._number}, []),
        }


class BytePairs(OwnTokenizer):
    """A token for each byte, and for each pair of neighbouring tokens that was merged; without pairs, bytes alone."""

    kind = "bytes"

    def __init__(self, pairs: Sequence[Pair] = (), special: Sequence[str] = (), template: str | None = None):
        """`pairs`: of pieces counted from 0, bytes first and then the pairs before."""
        self.pairs = [(int(a), int(b)) for a, b in pairs]
        self.bytes = [bytes([byte]) for byte in range(256)]
        for a, b in self.pairs:
            if not 0 <= min(a, b) <= max(a, b) < len(self.bytes):
                raise ForageError(f"A pair merges pieces that are there already, unlike ({a}, {b}).")
            self.bytes.append(self.bytes[a] + self.bytes[b])
        super().__init__(len(self.bytes), special, template)
        self._rank = {pair: rank for rank, pair in enumerate(self.pairs)}
        self._words: dict[str, list[int]] = {}

    @classmethod
    def learn(
        cls, texts: Iterable[str], size: int, special: Sequence[str] = (), template: str | None = None
    ) -> BytePairs:
        """Learn pairs from texts until there are `size` tokens, or no pair comes twice.

        Raise `ForageError` for fewer tokens than there are bytes and special ones.
        """
        least = 256 + 2 + len(special)
        if size < least:
            raise ForageError(f"Byte pairs need {least} tokens or more, for bytes and special tokens, and not {size}.")
        return cls(learned_pairs(texts, size - least), special, template)

    def pieces(self, text: str) -> list[int]:
        first, found = len(self.special), []
        if not self.pairs:
            return [first + byte for byte in text.encode()]
        for word in re.findall(WORD, text):
            pieces = self._words.get(word)
            if pieces is None:
                if len(self._words) >= 2**16:
                    self._words.clear()
                self._words[word] = pieces = merge_word(list(word.encode()), self._rank)
            found += [first + piece for piece in pieces]
        return found

    def text(self, pieces: list[int]) -> str:
        return b"".join(self.bytes[piece] for piece in pieces).decode(errors="replace")

    def piece_bytes(self, piece: int) -> bytes:
        return self.bytes[piece]

    def model(self) -> dict[str, Any]:
        letters = alphabet()
        names = ["".join(letters[byte] for byte in piece) for piece in self.bytes]
        vocabulary = self.special | {name: number for number, name in enumerate(names, len(self.special))}
        split = {"type": "Split", "pattern": {"Regex": WORD}, "behavior": "Isolated", "invert": False}
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return {
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
            "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            "model": byte_pair_model(vocabulary, [[names[a], names[b]] for a, b in self.pairs]),
        }


def byte_pair_model(vocabulary: dict[str, int], merges: list[list[str]]) -> dict[str, Any]:
    """Return the entry `model` of `tokenizer.json`."""
    unused = dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
    flags = dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), False)
    return {"type": "BPE", **unused, **flags, "vocab": vocabulary, "merges": merges}


def merge_word(word: list[int], rank: dict[Pair, int]) -> list[int]:
    """Return a word's pieces: the pair that was learned first is merged first, wherever it stands."""
    while len(word) > 1:
        best = min(itertools.pairwise(word), key=lambda pair: rank.get(pair, len(rank)))
        if best not in rank:
            break
        word = join_pair(word, best, 256 + rank[best])
    return word


def join_pair(word: Sequence[int], pair: Pair, piece: int) -> list[int]:
    """Return a word in which a pair is one piece, from left to right."""
    found, place = [], 0
    while place < len(word):
        here = tuple(word[place : place + 2]) == pair
        found.append(piece if here else word[place])
        place += 2 if here else 1
    return found


def learned_pairs(texts: Iterable[str], most: int) -> list[Pair]:
    """Return the pairs to merge, at most `most`. Of equally frequent pairs, the one with the smaller numbers is
    first.
    """
    counts = Counter(word for text in texts for word in re.findall(WORD, text))
    words = [(list(word.encode()), count) for word, count in sorted(counts.items())]
    frequency: Counter[Pair] = Counter()
    where: dict[Pair, set[int]] = {}
    for number, (word, count) in enumerate(words):
        for pair in itertools.pairwise(word):
            frequency[pair] += count
            where.setdefault(pair, set()).add(number)
    pairs: list[Pair] = []
    while len(pairs) < most and frequency:
        best = min(frequency, key=lambda pair: (-frequency[pair], pair))
        if frequency[best] < 2:
            break
        for number in where.pop(best):
            word, count = words[number]
            new = join_pair(word, best, 256 + len(pairs))
            for pair in itertools.pairwise(word):
                frequency[pair] -= count
                if not frequency[pair]:
                    del frequency[pair]
            for pair in itertools.pairwise(new):
                frequency[pair] += count
                where.setdefault(pair, set()).add(number)
            words[number] = new, count
        pairs.append(best)
    return pairs


def read_tokenizer(directory: Path, config: dict[str, Any]) -> Tokenizer:
    """Return one of our tokenizers from its files."""
    data = read_json(directory / "tokenizer.json")
    try:
        special = [entry["content"] for entry in sorted(data["added_tokens"], key=lambda entry: entry["id"])]
        vocabulary, merges = data["model"]["vocab"], data["model"]["merges"]
    except (KeyError, TypeError):
        raise ForageError(f"{directory / 'tokenizer.json'} is none of Forage's tokenizers, as it says it is.") from None
    template, first = read_template(directory, config), len(special)
    if config["forage_tokenizer"] == Characters.kind:
        return Characters([text for text, number in vocabulary.items() if number >= first], special[2:], template)
    pairs = [(vocabulary[a] - first, vocabulary[b] - first) for a, b in merges]
    return BytePairs(pairs, special[2:], template)
