"""Reversal: a word backwards."""

from __future__ import annotations

import numpy as np

from forage.environments.text import answers
from forage.environments.text.draws import word
from forage.environments.text.problems import Family, Problem


class Reversal(Family):
    """Write the letters of a random word in reverse order."""

    name = "reversal"
    levels = tuple(f"{count} letters" for count in (3, 5, 7, 9, 11, 13))
    measure = "letters"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        text = word(generator, 3 + 2 * difficulty)
        return Problem(f"Write {text} backwards.", text[::-1], {"word": text})

    def size(self, problem: Problem) -> int:
        return len(problem.data["word"])

    def reason(self, problem: Problem) -> str:
        """Spell the word, then spell it from its end."""
        text = problem.data["word"]
        return f"{' '.join(text)}, backwards {' '.join(text[::-1])}."

    def parse_answer(self, problem: Problem, found: str) -> str | None:
        """Return a word of small letters."""
        return answers.matching(found, "[a-z]+")
