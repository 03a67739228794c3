"""Any tokenizer that has a `tokenizer.json`, by Hugging Face's `tokenizers` (extra `language`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from forage.core.errors import ForageError
from forage.core.text.tokenizer import Tokenizer, read_json, read_template

FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
)


class HuggingFace(Tokenizer):
    """A tokenizer from a directory of Hugging Face's. It is saved byte for byte in its original form."""

    hides_special = True

    def __init__(self, directory: Path):
        try:
            import tokenizers
        except ImportError:
            raise ForageError(
                f"The tokenizer in {directory} needs an extra: pip install 'forage-rl[language]'."
            ) from None
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
        except Exception as error:
            raise ForageError(f"{directory / 'tokenizer.json'} cannot be read: {error}.") from None
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._files = {name: (directory / name).read_bytes() for name in FILES if (directory / name).exists()}
        config = read_json(directory / "tokenizer_config.json")
        names = read_json(directory / "special_tokens_map.json") | config
        self.vocabulary = self._tokenizer.get_vocab_size()
        added = self._tokenizer.get_added_tokens_decoder()
        self.special = {token.content: number for number, token in added.items() if token.special}
        self.pad, self.end, self.begin = (self._special_token(names, name) for name in ("pad", "eos", "bos"))
        self.template = read_template(directory, config)
        first = self.encode("a", around=True)[:1]
        if self.begin is not None and (first == [self.begin] or config.get("add_bos_token") is True):
            self.opens = (self.begin,)

    def _special_token(self, names: dict[str, Any], name: str) -> int | None:
        """Return the number of a token that the configuration names, which counts as special."""
        found = names.get(f"{name}_token")
        text = found["content"] if isinstance(found, dict) else found
        number = None if text is None else self._tokenizer.token_to_id(text)
        if text is not None and number is not None:
            self.special.setdefault(text, number)
        return number

    def encode(self, text: str, around: bool = False) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=around).ids

    def encode_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return found.ids, found.offsets

    def decode(self, tokens: Iterable[int], special: bool = False) -> str:
        return self._tokenizer.decode([int(token) for token in tokens], skip_special_tokens=not special)

    def save(self, directory: str | Path) -> Path:
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in self._files.items():
            (directory / name).write_bytes(data)
        return directory
