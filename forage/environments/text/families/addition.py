"""Addition: the sum of two numbers."""

from __future__ import annotations

import numpy as np

from forage.environments.text.draws import draw_integer
from forage.environments.text.problems import Family, Problem


class Addition(Family):
    """Add two numbers of equally many digits."""

    name = "addition"
    levels = tuple(f"{count} digits each" if count > 1 else "1 digit each" for count in range(1, 9))
    measure = "digits"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        low, high = 10**difficulty if difficulty else 0, 10 ** (difficulty + 1) - 1
        left, right = draw_integer(generator, low, high), draw_integer(generator, low, high)
        return Problem(f"Compute {left} + {right}.", str(left + right), {"left": left, "right": right})

    def size(self, problem: Problem) -> int:
        return len(str(problem.data["left"])) + len(str(problem.data["right"]))

    def reason(self, problem: Problem) -> str:
        """Add column by column from the right, with carries."""
        left, right, carry, columns = problem.data["left"], problem.data["right"], 0, []
        while left or right or not columns:
            total = left % 10 + right % 10 + carry
            columns.append(f"{left % 10}+{right % 10}{f'+{carry}' if carry else ''}={total}")
            left, right, carry = left // 10, right // 10, total // 10
        return ", ".join(columns) + "."
