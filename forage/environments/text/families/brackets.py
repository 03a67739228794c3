"""Brackets: the closing brackets of an open sequence."""

from __future__ import annotations

import numpy as np

from forage.environments.text import answers
from forage.environments.text.draws import one
from forage.environments.text.problems import Family, Problem

PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}


def open_after(text: str) -> list[str]:
    """Return the brackets that are open after each one."""
    stack, seen = "", []
    for bracket in text:
        stack = stack + bracket if bracket in PAIRS else stack[:-1]
        seen.append(stack)
    return seen


class Brackets(Family):
    """Close the open brackets, with the fewest brackets: there is one answer."""

    name = "brackets"
    levels = tuple(f"{count} brackets of 4 kinds" for count in (4, 7, 10, 14, 18, 24))
    measure = "brackets"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        length, text, stack = (4, 7, 10, 14, 18, 24)[difficulty], "", ""
        for place in range(length):
            if not stack or (len(stack) == 1 and place == length - 1) or generator.random() < 0.55:
                text += one(generator, tuple(PAIRS))
                stack += text[-1]
            else:
                text += PAIRS[stack[-1]]
                stack = stack[:-1]
        answer = "".join(PAIRS[bracket] for bracket in reversed(stack))
        return Problem(f"Which brackets close this: {text}", answer, {"text": text})

    def size(self, problem: Problem) -> int:
        return len(problem.data["text"])

    def reason(self, problem: Problem) -> str:
        """Write the open brackets after each bracket."""
        return f"Open after each: {' '.join(stack or '-' for stack in open_after(problem.data['text']))}"

    def parse_answer(self, problem: Problem, found: str) -> str | None:
        """Return a row of closing brackets."""
        return answers.matching(found, r"[)\]}>]+")
