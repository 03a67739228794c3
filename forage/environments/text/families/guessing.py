"""Guessing: the next guess at a hidden number."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.environments.text.draws import draw_integer
from forage.environments.text.problems import Family, Problem


def remaining_range(problem: Problem) -> tuple[int, int]:
    """Return the least and the greatest number that the replies leave."""
    low, high = problem.data["range"]
    for guess, reply in problem.data["replies"]:
        low, high = (max(low, guess + 1), high) if reply == "higher" else (low, min(high, guess - 1))
    return low, high


class Guessing(Family):
    """Name the guess that leaves the fewest numbers in the worst case, after some replies; either middle is right."""

    name = "guessing"
    levels = (
        "7 numbers, up to 1 reply",
        *(f"{2 ** (count + 3) - 1} numbers, up to {count + 1} replies" for count in range(1, 6)),
    )
    measure = "numbers"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        first = low = draw_integer(generator, 1, 50)
        last = high = first + 2 ** (difficulty + 3) - 2
        secret = draw_integer(generator, first, last)
        replies: list[list[Any]] = []
        for _ in range(draw_integer(generator, 1, difficulty + 1)):
            guess = draw_integer(generator, low, high)
            if guess == secret or high - low < 3:
                break
            replies.append([guess, "higher" if guess < secret else "lower"])
            low, high = (guess + 1, high) if guess < secret else (low, guess - 1)
        said = "".join(f" {guess}? It is {reply}." for guess, reply in replies)
        prompt = f"A number from {first} to {last} is hidden.{said} Which guess leaves the fewest in the worst case?"
        return Problem(prompt, str((low + high) // 2), {"range": [first, last], "replies": replies})

    def size(self, problem: Problem) -> int:
        return problem.data["range"][1] - problem.data["range"][0] + 1

    def reason(self, problem: Problem) -> str:
        """Name the remaining range and its middle."""
        low, high = remaining_range(problem)
        return f"It is from {low} to {high}. ({low} + {high}) / 2 = {(low + high) / 2:g}."

    def judge(self, problem: Problem, value: Any) -> bool:
        """Return whether a guess is a middle of the remaining range."""
        low, high = remaining_range(problem)
        return value in ((low + high) // 2, (low + high + 1) // 2)
