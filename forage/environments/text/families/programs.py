"""Programs: the output of a small program."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from forage.environments.text.draws import draw_integer, one
from forage.environments.text.problems import Family, Problem

NAMES = "abc"
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": operator.mod,
}
LARGEST = 999  # of every value on the way
STEPS = 60  # of a program

# A statement is ["set", name, value], ["op", name, left, operator, right], ["if", left, right, then, otherwise] or
# ["for", name, times, body]; a value is a name or a number.
Statement = list[Any]


def python_lines(body: list[Statement], indent: str = "") -> list[str]:
    """Return statements as lines of Python."""
    written = []
    for kind, *parts in body:
        if kind == "set":
            written.append(f"{indent}{parts[0]} = {parts[1]}")
        elif kind == "op":
            written.append(f"{indent}{parts[0]} = {parts[1]} {parts[2]} {parts[3]}")
        elif kind == "if":
            written += [f"{indent}if {parts[0]} > {parts[1]}:", *python_lines(parts[2], indent + "    ")]
            written += [f"{indent}else:", *python_lines(parts[3], indent + "    ")]
        else:
            written += [f"{indent}for {parts[0]} in range({parts[1]}):", *python_lines(parts[2], indent + "    ")]
    return written


def run_statements(body: list[Statement], values: dict[Any, int], trace: list[tuple[str, int]]) -> None:
    """Run generated statements, and record every value assigned to a variable."""
    for kind, *parts in body:
        if kind in ("set", "op"):
            name, left, *rest = parts
            value = values.get(left, left)
            if rest:
                right = values.get(rest[1], rest[1])
                value = OPERATIONS[rest[0]](value, right)
            values[name] = value
            trace.append((name, value))
        elif kind == "if":
            left, right = (values.get(side, side) for side in parts[:2])
            run_statements(parts[2] if left > right else parts[3], values, trace)
        else:
            for turn in range(parts[1]):
                values[parts[0]] = turn
                trace.append((parts[0], turn))
                run_statements(parts[2], values, trace)


class Programs(Family):
    """Predict the number printed by a generated Python program, interpreted here."""

    name = "programs"
    levels = (
        "4 lines: assignments",
        "6 lines: assignments",
        "8 lines: one choice",
        "9 lines: one loop",
        "11 lines: a choice in a loop",
        "13 lines: loops in one another with a choice",
    )
    measure = "lines"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        while True:
            body: list[Statement] = [
                ["set", name, draw_integer(generator, 1, 9)] for name in NAMES[: 2 + (difficulty > 0)]
            ]
            body += self._rest(generator, difficulty)
            values: dict[str, int] = {}
            trace: list[tuple[str, int]] = []
            run_statements(body, values, trace)
            if len(trace) <= STEPS and all(abs(value) <= LARGEST for _, value in trace):
                break
        asked = body[-1][1] if body[-1][0] == "op" else one(generator, NAMES)
        text = "\n".join([*python_lines(body), f"print({asked})"])
        prompt = f"What does this program print?\n{text}"
        return Problem(prompt, str(values[asked]), {"body": body, "asked": asked})

    def _rest(self, generator: np.random.Generator, level: int) -> list[Statement]:
        """Draw the statements after the first values."""
        if level == 0:
            return [self._operation(generator, "ab")]
        if level == 1:
            return [self._operation(generator, NAMES) for _ in range(2)]
        if level == 2:
            return [self._choice(generator)]
        if level == 3:
            turn = [self._operation(generator, f"{NAMES}i") for _ in range(2)]
            return [self._loop(generator, "i", turn), *(self._operation(generator, NAMES) for _ in range(2))]
        if level == 4:
            turn = [self._choice(generator), self._operation(generator, f"{NAMES}i")]
            return [self._loop(generator, "i", turn), self._operation(generator, NAMES)]
        inner = self._loop(generator, "j", [self._operation(generator, f"{NAMES}ij")])
        turn = [inner, self._choice(generator)]
        return [self._loop(generator, "i", turn), *(self._operation(generator, NAMES) for _ in range(2))]

    def _operation(self, generator: np.random.Generator, names: str) -> Statement:
        """Draw an assignment of a sum, a difference, a product or a remainder."""
        sign = one(generator, "++--*%")
        right: str | int = one(generator, names) if sign in "+-" else draw_integer(generator, 2, 5)
        return ["op", one(generator, names[: len(names.rstrip("ij"))]), one(generator, names), sign, right]

    def _choice(self, generator: np.random.Generator) -> Statement:
        """Draw an if with its else, one line each."""
        left, right = one(generator, NAMES), one(generator, (*NAMES, draw_integer(generator, 1, 9)))
        sides = ([self._operation(generator, NAMES)] for _ in range(2))
        return ["if", left, right, *sides]

    def _loop(self, generator: np.random.Generator, name: str, body: list[Statement]) -> Statement:
        """Draw a loop of two to four turns."""
        return ["for", name, draw_integer(generator, 2, 4), body]

    def size(self, problem: Problem) -> int:
        return len(python_lines(problem.data["body"])) + 1

    def reason(self, problem: Problem) -> str:
        """Note every value that a variable takes, in the order of the program."""
        trace: list[tuple[str, int]] = []
        run_statements(problem.data["body"], {}, trace)
        return ", ".join(f"{name}={value}" for name, value in trace) + "."
