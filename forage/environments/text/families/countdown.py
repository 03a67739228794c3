"""Countdown: an expression of given numbers that has a given value."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.environments.text import expressions
from forage.environments.text.draws import draw_integer, one
from forage.environments.text.problems import Family, Problem

LARGEST = (10, 20, 30, 50, 99)  # number given, by level
FURTHEST = 999  # value on the way


class Countdown(Family):
    """Combine all given numbers, each once, to a target; every expression that does is right, also with fractions."""

    name = "countdown"
    levels = tuple(f"{count} numbers up to {largest}" for count, largest in enumerate(LARGEST, 2))
    measure = "numbers"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        given = [draw_integer(generator, 1, LARGEST[difficulty]) for _ in range(difficulty + 2)]
        parts: list[tuple[int, expressions.Tree]] = [(value, value) for value in given]
        while len(parts) > 1:
            first, second = (int(place) for place in generator.permutation(len(parts))[:2])
            (left, left_tree), (right, right_tree) = parts[first], parts[second]
            operators = [
                operator
                for operator, whole in (
                    ("+", left + right <= FURTHEST),
                    ("-", left > right),
                    ("*", left * right <= FURTHEST),
                    ("/", right > 1 and left % right == 0),
                )
                if whole
            ]
            if not operators:  # two numbers so large that neither sum nor difference fits in this order
                operators, left, right, left_tree, right_tree = ["-"], right, left, right_tree, left_tree
            operator = one(generator, operators)
            result = int(expressions.apply(operator, left, right))  # pyrefly: ignore
            parts = [part for place, part in enumerate(parts) if place not in (first, second)]
            parts.append((result, (operator, left_tree, right_tree)))
        target, tree = parts[0]
        listed = f"{', '.join(map(str, given[:-1]))} and {given[-1]}"
        prompt = f"Use {listed} once each with + - * / and brackets to make {target}."
        return Problem(prompt, expressions.write_expression(tree), {"numbers": given, "target": target})

    def size(self, problem: Problem) -> int:
        return len(problem.data["numbers"])

    def reason(self, problem: Problem) -> str:
        """Show each operation with its result."""
        done = expressions.operations(expressions.parse_expression(problem.answer))
        return ", ".join(f"{left} {operator} {right} = {result}" for operator, left, right, result in done) + "."

    def parse_answer(self, problem: Problem, found: str) -> expressions.Tree | None:
        """Return the tree of an expression."""
        return expressions.parse_expression(found)

    def judge(self, problem: Problem, value: Any) -> bool:
        """Return whether an expression has the target's value and uses each number once."""
        same = sorted(expressions.expression_numbers(value)) == sorted(problem.data["numbers"])
        return same and expressions.value(value) == problem.data["target"]

    def identity(self, problem: Problem) -> str:
        """Return numbers and target; the order of the numbers makes no other problem."""
        return f"{sorted(problem.data['numbers'])} {problem.data['target']}"
