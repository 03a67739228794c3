"""Parsers of answers: strict, so that form can be rewarded, and total, so that no text breaks a run.

Each returns None for what is not of its form. An answer is the last complete pair of tags; what stands after it is
ignored, and so are pairs before it.
"""

from __future__ import annotations

import re
from typing import Any

OPEN, CLOSE = "<answer>", "</answer>"
LONGEST = 1000  # characters of an answer; no family's right answers come near
DIGITS = 18  # of one number

INTEGER = re.compile(rf"[+-]?[0-9]{{1,{DIGITS}}}")
FENCE = "```"


def extract_answer(text: Any, longest: int = LONGEST) -> str | None:
    """Return the content of the last `<answer>...</answer>`, without spaces around it."""
    if not isinstance(text, str):
        return None
    end = text.rfind(CLOSE)
    start = text.rfind(OPEN, 0, end) if end >= 0 else -1
    return None if start < 0 else strip_bounded(text[start + len(OPEN) : end], longest)


def extract_code(text: Any, language: str) -> str | None:
    """Return the last block of code in a language, as Markdown writes it."""
    if not isinstance(text, str):
        return None
    start = text.rfind(f"{FENCE}{language}\n")
    if start < 0:
        return None
    start += len(FENCE) + len(language) + 1
    end = text.find(FENCE, start)
    return None if end < 0 else strip_bounded(text[start:end])


def strip_bounded(text: str, longest: int = LONGEST) -> str | None:
    """Return a text without spaces around it, if it is neither empty nor longer than any answer."""
    text = text.strip()
    return text if 0 < len(text) <= longest else None


def integer(text: str) -> int | None:
    """Return the whole number that a text is."""
    return int(text) if INTEGER.fullmatch(text) else None


def integers(text: str) -> list[int] | None:
    """Return the whole numbers of a list separated by spaces or commas."""
    found = [integer(word) for word in re.split(r" *, *| +", text)]
    return None if None in found else found  # pyrefly: ignore


def matching(text: str, pattern: str) -> str | None:
    """Return a text that matches one of our patterns as a whole, else None."""
    return text if re.fullmatch(pattern, text) else None
