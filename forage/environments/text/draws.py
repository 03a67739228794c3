"""Draws from NumPy's generators as plain Python values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def draw_integer(generator: np.random.Generator, low: int, high: int) -> int:
    """Draw a whole number from `low` to `high`, both of them included."""
    return int(generator.integers(low, high + 1))


def one(generator: np.random.Generator, items: Sequence[T]) -> T:
    """Draw one of some items."""
    return items[int(generator.integers(len(items)))]


def draw_several(generator: np.random.Generator, items: Sequence[T], count: int) -> list[T]:
    """Draw several different items, in random order."""
    return [items[int(place)] for place in generator.permutation(len(items))[:count]]


def word(generator: np.random.Generator, length: int, letters: str = LETTERS) -> str:
    """Draw a word of independent letters."""
    return "".join(letters[int(place)] for place in generator.integers(len(letters), size=length))
