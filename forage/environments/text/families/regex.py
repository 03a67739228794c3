"""Regular expressions: a pattern that parts some words from others."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.environments.text import patterns
from forage.environments.text.draws import draw_integer, draw_several, one, word
from forage.environments.text.problems import Family, Problem

ALPHABET = "abc"
QUANTIFIERS = ("*", "+", "?", "")
ROOM = 2  # characters that an answer may be longer than the hidden pattern
DRAWS = 16  # of words, before a hidden pattern is given up
WORDS = 4  # to match, and as many not to match


class Regex(Family):
    """Write a short pattern that matches all of some words and none of others; every such pattern is right.

    Its length is limited to two characters more than the hidden pattern's, so that listing the words is no answer.
    """

    name = "regex"
    levels = ("a hidden pattern of 2 pieces", *(f"a hidden pattern of {count} pieces" for count in (3, 4, 5, 6)))
    measure = "pieces"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        while True:
            pieces = [self._piece(generator) for _ in range(difficulty + 2)]
            hidden = "".join(atom + quantifier for atom, quantifier in pieces)
            pattern = patterns.Pattern(hidden)
            words = {"".join(self._instance(generator, *piece) for piece in pieces) for _ in range(DRAWS)}
            inside = sorted(each for each in words if 0 < len(each) <= 12)
            others = {self._change_letter(generator, one(generator, inside)) for _ in range(DRAWS)} if inside else set()
            outside = sorted(each for each in others if each and not pattern.matches(each))
            inside, outside = draw_several(generator, inside, WORDS), draw_several(generator, outside, WORDS)
            limit = len(hidden) + ROOM
            if len(inside) == len(outside) == WORDS and len("|".join(inside)) > limit:
                break
        prompt = (
            f"Write a regular expression of at most {limit} characters that matches each of {', '.join(inside)} as a "
            f"whole and none of {', '.join(outside)}."
        )
        data = {"inside": inside, "outside": outside, "limit": limit, "pieces": ["".join(piece) for piece in pieces]}
        return Problem(prompt, hidden, data)

    def _piece(self, generator: np.random.Generator) -> tuple[str, str]:
        """Draw a letter, a choice of letters or a group, and its quantifier."""
        kind = draw_integer(generator, 0, 3)
        quantifier = one(generator, QUANTIFIERS)
        if kind < 2:
            return one(generator, ALPHABET), quantifier
        if kind == 2:
            return one(generator, ("[ab]", "[bc]", "[ac]")), quantifier
        return f"({word(generator, 2, ALPHABET)})", one(generator, ("*", "+", "?"))

    def _instance(self, generator: np.random.Generator, atom: str, quantifier: str) -> str:
        """Draw a word that a piece matches."""
        low, high = {"*": (0, 3), "+": (1, 3), "?": (0, 1), "": (1, 1)}[quantifier]
        count = draw_integer(generator, low, high)
        if atom.startswith("["):
            return word(generator, count, atom[1:-1])
        return atom.strip("()") * count

    def _change_letter(self, generator: np.random.Generator, text: str) -> str:
        """Put another letter somewhere, add one or leave one out."""
        place, kind = draw_integer(generator, 0, len(text) - 1), draw_integer(generator, 0, 2)
        letter = "" if kind == 2 else one(generator, ALPHABET)
        return text[:place] + letter + text[place + (kind > 0) :]

    def size(self, problem: Problem) -> int:
        return len(problem.data["pieces"])

    def reason(self, problem: Problem) -> str:
        """Name the pieces from left to right."""
        return f"Pieces from left to right: {' then '.join(problem.data['pieces'])}."

    def parse_answer(self, problem: Problem, found: str) -> patterns.Pattern | None:
        """Return the automaton of a pattern that is short enough."""
        return patterns.compile_pattern(found) if len(found) <= problem.data["limit"] else None

    def judge(self, problem: Problem, value: Any) -> bool:
        """Return whether a pattern matches the words it should, and no other."""
        if not all(value.matches(each) for each in problem.data["inside"]):
            return False
        return not any(value.matches(each) for each in problem.data["outside"])

    def identity(self, problem: Problem) -> str:
        """Return the words; their order makes no other problem."""
        return f"{sorted(problem.data['inside'])} {sorted(problem.data['outside'])}"
