"""Cipher: a word with each letter moved along the alphabet."""

from __future__ import annotations

import numpy as np

from forage.environments.text import answers
from forage.environments.text.draws import LETTERS, draw_integer, word
from forage.environments.text.problems import Family, Problem

SIZES = ((3, 1), (4, 3), (6, 5), (8, 9), (10, 13))  # letters and places, by level


def shift_letters(text: str, shift: int) -> str:
    """Return a word with each letter moved by `shift` places in the alphabet, with a after z."""
    return "".join(LETTERS[(LETTERS.index(letter) + shift) % len(LETTERS)] for letter in text)


class Cipher(Family):
    """Move each letter of a word by some places in the alphabet, onward or back (Caesar's cipher)."""

    name = "cipher"
    levels = tuple(f"{count} letters, up to {'1 place' if most == 1 else f'{most} places'}" for count, most in SIZES)
    measure = "letters"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        length, furthest = SIZES[difficulty]
        text, shift = word(generator, length), draw_integer(generator, 1, furthest)
        back = bool(generator.integers(2))
        places = f"{shift} place{'s' if shift > 1 else ''} {'back' if back else 'on'}"
        prompt = f"Move each letter of {text} {places} in the alphabet, where a comes after z."
        shift = -shift if back else shift
        return Problem(prompt, shift_letters(text, shift), {"word": text, "shift": shift})

    def size(self, problem: Problem) -> int:
        return len(problem.data["word"])

    def reason(self, problem: Problem) -> str:
        """Move one letter after the other."""
        text, moved = problem.data["word"], shift_letters(problem.data["word"], problem.data["shift"])
        return ", ".join(f"{old} to {new}" for old, new in zip(text, moved, strict=True)) + "."

    def parse_answer(self, problem: Problem, found: str) -> str | None:
        """Return a word of small letters."""
        return answers.matching(found, "[a-z]+")
