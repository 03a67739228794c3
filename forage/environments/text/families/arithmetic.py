"""Arithmetic: the value of an expression."""

from __future__ import annotations

import numpy as np

from forage.environments.text import expressions
from forage.environments.text.draws import draw_integer, one
from forage.environments.text.problems import Family, Problem

LARGEST = 9999  # of every value on the way


class Arithmetic(Family):
    """Compute an expression of whole numbers with +, - and *, and the necessary brackets."""

    name = "arithmetic"
    levels = ("1 operation, + or -", *(f"{count} operations, + - or *" for count in range(2, 7)))
    measure = "operations"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        while True:
            tree = self._tree(generator, difficulty + 1, "+-*" if difficulty else "+-")
            if all(abs(result) <= LARGEST for *_, result in expressions.operations(tree)):
                text = expressions.write_expression(tree)
                return Problem(f"Compute {text}.", str(expressions.value(tree)), {"expression": text})

    def _tree(self, generator: np.random.Generator, operations: int, operators: str) -> expressions.Tree:
        """Draw an expression with this number of operations."""
        if not operations:
            return draw_integer(generator, 1, 20)
        left = draw_integer(generator, 0, operations - 1)
        sides = (self._tree(generator, count, operators) for count in (left, operations - 1 - left))
        return (one(generator, operators), *sides)

    def size(self, problem: Problem) -> int:
        return len(expressions.expression_numbers(expressions.parse_expression(problem.data["expression"]))) - 1

    def reason(self, problem: Problem) -> str:
        """Carry out one operation a step."""
        return (
            " = ".join(expressions.simplification_steps(expressions.parse_expression(problem.data["expression"]))) + "."
        )
