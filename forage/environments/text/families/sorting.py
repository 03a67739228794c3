"""Sorting: numbers in order."""

from __future__ import annotations

from bisect import insort

import numpy as np

from forage.environments.text import answers
from forage.environments.text.draws import draw_integer
from forage.environments.text.problems import Family, Problem


def join_numbers(numbers: list[int]) -> str:
    """Return numbers with spaces between them."""
    return " ".join(map(str, numbers))


class Sorting(Family):
    """Put numbers in rising or falling order."""

    name = "sorting"
    levels = tuple(f"{count} numbers below 100" for count in (3, 5, 7, 9, 11))
    measure = "numbers"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        numbers = [draw_integer(generator, 0, 99) for _ in range(3 + 2 * difficulty)]
        falling = bool(generator.integers(2))
        order = "greatest to least" if falling else "least to greatest"
        answer = join_numbers(sorted(numbers, reverse=falling))
        data = {"numbers": numbers, "falling": falling}
        return Problem(f"Sort from {order}: {join_numbers(numbers)}", answer, data)

    def size(self, problem: Problem) -> int:
        return len(problem.data["numbers"])

    def reason(self, problem: Problem) -> str:
        """Insert one number after the other at its place."""
        rows, row, sign = [], [], -1 if problem.data["falling"] else 1
        for value in problem.data["numbers"]:
            insort(row, sign * value)
            rows.append(join_numbers([sign * each for each in row]))
        return " | ".join(rows) + "."

    def parse_answer(self, problem: Problem, found: str) -> list[int] | None:
        """Return the numbers of a list."""
        return answers.integers(found)
