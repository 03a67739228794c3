"""Counting: the number of occurrences of a word."""

from __future__ import annotations

import numpy as np

from forage.environments.text.draws import draw_several, one
from forage.environments.text.problems import Family, Problem

WORDS = ("the", "a", "cat", "dog", "sun", "moon", "sees", "likes", "and", "then", "red", "blue")


class Counting(Family):
    """Count the occurrences of a word in a text of a few different words."""

    name = "counting"
    levels = tuple(f"{count} words" for count in (5, 10, 15, 20, 30, 40))
    measure = "words"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        known = draw_several(generator, WORDS, 5)
        text = [one(generator, known) for _ in range((5, 10, 15, 20, 30, 40)[difficulty])]
        asked = one(generator, known)
        prompt = f'How often does the word "{asked}" occur in: {" ".join(text)}'
        return Problem(prompt, str(text.count(asked)), {"words": text, "asked": asked})

    def size(self, problem: Problem) -> int:
        return len(problem.data["words"])

    def reason(self, problem: Problem) -> str:
        """Write a running count after each word."""
        count, tally = 0, []
        for word in problem.data["words"]:
            count += word == problem.data["asked"]
            tally.append(f"{word} {count}")
        return ", ".join(tally) + "."
