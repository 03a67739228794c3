"""Bases: a number written in another base."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.environments.text import answers
from forage.environments.text.draws import draw_integer, one
from forage.environments.text.problems import Family, Problem

DIGITS = "0123456789abcdef"
BITS = (6, 7, 9, 11, 13, 16)  # of the number, by level


def to_base(value: int, base: int) -> str:
    """Return a positive number in a base."""
    text = ""
    while value:
        value, digit = divmod(value, base)
        text = DIGITS[digit] + text
    return text


class Bases(Family):
    """Write a number of base 10 in another base, or the way back; from level 3 on between any two."""

    name = "bases"
    levels = (
        *(f"{bits} binary digits, base 2" for bits in BITS[:2]),
        f"{BITS[2]} binary digits, bases 2, 3, 8 and 16",
        *(f"{bits} binary digits, between any two of bases 2, 3, 8, 10 and 16" for bits in BITS[3:]),
    )
    measure = "binary digits"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        value = draw_integer(generator, 2 ** (BITS[difficulty] - 1), 2 ** BITS[difficulty] - 1)
        others = (2,) if difficulty < 2 else (2, 3, 8, 16)
        before, after = 10, one(generator, others)
        if generator.integers(2):
            before, after = after, before
        if difficulty > 2:
            before, after = (int(base) for base in generator.permutation([2, 3, 8, 10, 16])[:2])
        text = to_base(value, before)
        data = {"number": value, "from": before, "to": after}
        return Problem(f"Write {text} (base {before}) in base {after}.", to_base(value, after), data)

    def size(self, problem: Problem) -> int:
        return problem.data["number"].bit_length()

    def reason(self, problem: Problem) -> str:
        """Collect the digits to a number of base 10, then divide that by the new base again and again."""
        value, before, after = (problem.data[key] for key in ("number", "from", "to"))
        lines = []
        if before != 10:
            total = 0
            for digit in to_base(value, before):
                amount = DIGITS.index(digit)
                lines.append(f"{total} * {before} + {amount} = {total * before + amount}")
                total = total * before + amount
        while after != 10 and value:
            digit = value % after
            named = f" ({DIGITS[digit]})" if digit > 9 else ""
            lines.append(f"{value} = {after} * {value // after} + {digit}{named}")
            value //= after
        return ", ".join(lines) + "."

    def parse_answer(self, problem: Problem, found: str) -> int | None:
        """Return the number that digits of the asked base stand for."""
        base = problem.data["to"]
        text = answers.matching(found, f"[{DIGITS[:base]}]{{1,40}}")
        return None if text is None else int(text, base)

    def judge(self, problem: Problem, value: Any) -> bool:
        """Return whether it is the number."""
        return value == problem.data["number"]
