"""Satisfiability: truth values that make every clause true."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.environments.text.draws import draw_integer, draw_several
from forage.environments.text.problems import Family, Problem

VARIABLES = (3, 4, 5, 6, 7, 8)  # by level


def true(clause: list[str], values: dict[str, bool]) -> str:
    """Return a literal of a clause that is true, or an empty text if none is."""
    return next((literal for literal in clause if values[literal[-1]] != literal.startswith("not ")), "")


class Satisfiability(Family):
    """Choose true or false for each variable so that all clauses hold; every choice that does is right."""

    name = "satisfiability"
    levels = tuple(f"{count} variables, {2 * count} clauses" for count in VARIABLES)
    measure = "clauses"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        names = "abcdefgh"[: VARIABLES[difficulty]]
        values = {name: bool(generator.integers(2)) for name in names}
        clauses: list[list[str]] = []
        while len(clauses) < 2 * len(names):
            chosen = draw_several(generator, names, draw_integer(generator, 2, min(3, len(names))))
            clause = [f"{'not ' if generator.integers(2) else ''}{name}" for name in chosen]
            if true(clause, values):
                clauses.append(clause)
        said = "; ".join(" or ".join(clause) for clause in clauses)
        prompt = f"Make all of these true: {said}. Answer such as {' '.join(f'{name}=true' for name in names[:2])}."
        answer = " ".join(f"{name}={str(value).lower()}" for name, value in values.items())
        return Problem(prompt, answer, {"names": names, "clauses": clauses})

    def size(self, problem: Problem) -> int:
        return len(problem.data["clauses"])

    def reason(self, problem: Problem) -> str:
        """Name for each clause a literal that makes it true."""
        values = self.parse_answer(problem, problem.answer)
        assert values is not None
        made = (f"{' or '.join(clause)}: {true(clause, values)}" for clause in problem.data["clauses"])
        return f"{problem.answer} works: {', '.join(made)}."

    def parse_answer(self, problem: Problem, found: str) -> dict[str, bool] | None:
        """Return the value of each variable; None unless each has exactly one."""
        pairs = [word.split("=") for word in found.replace(",", " ").split()]
        if any(len(pair) != 2 or pair[1] not in ("true", "false") for pair in pairs):
            return None
        values = {name: value == "true" for name, value in pairs}
        return values if len(pairs) == len(values) and values.keys() == set(problem.data["names"]) else None

    def judge(self, problem: Problem, value: Any) -> bool:
        """Return whether every clause has a literal that is true."""
        return all(true(clause, value) for clause in problem.data["clauses"])

    def identity(self, problem: Problem) -> str:
        """Return the clauses; their order, and that of their literals, makes no other problem."""
        return str(sorted(sorted(clause) for clause in problem.data["clauses"]))
