"""Tokenizers by name: the one of Forage's own models, and directories that have one."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from forage.core.errors import ForageError
from forage.core.text.own import BytePairs
from forage.core.text.tokenizer import Tokenizer

FORAGE = "forage"
"""The name of the tokenizer of Forage's own models."""
MARKERS = "<answer>", "</answer>", "<call>", "</call>", "<result>", "</result>"
"""Markers that are one token each, so that a small model needs few tokens."""
PAIRS = Path(__file__).parent / "pairs.json"
"""Its pairs, which `docs/make/tokenizer.py` learned from the problems that the base model is made of."""


@functools.cache
def tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer `forage`, or that of a directory. Raise `ForageError` if there is none."""
    if name == FORAGE:
        return BytePairs(json.loads(PAIRS.read_text()), special=MARKERS)
    if not Path(name).is_dir():
        raise ForageError(f"A tokenizer is {FORAGE} or a directory that has a tokenizer.json, and {name!r} is neither.")
    return Tokenizer.load(name)
