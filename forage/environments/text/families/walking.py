"""Walking: the destination of instructions on a grid."""

from __future__ import annotations

import numpy as np

from forage.environments.text import answers
from forage.environments.text.draws import draw_integer, one
from forage.environments.text.problems import Family, Problem

HEADINGS = ("north", "east", "south", "west")
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
LEFT, RIGHT = 0, -1  # instructions; those above 0 are steps ahead
COUNTS = (2, 4, 6, 9, 12)  # instructions, by level


def walk_instructions(heading: int, instructions: list[int]) -> list[tuple[int, int, int]]:
    """Return x, y and heading after each instruction."""
    x, y, seen = 0, 0, []
    for instruction in instructions:
        if instruction > 0:
            x, y = x + instruction * MOVES[heading][0], y + instruction * MOVES[heading][1]
        else:
            heading = (heading + (1 if instruction == RIGHT else -1)) % 4
        seen.append((x, y, heading))
    return seen


def instruction_words(instruction: int) -> str:
    """Return one instruction in words."""
    return f"go {instruction}" if instruction > 0 else "turn right" if instruction == RIGHT else "turn left"


class Walking(Family):
    """Follow instructions to walk and to turn from 0,0; x grows to the east and y to the north."""

    name = "walking"
    levels = tuple(f"{count} instructions" for count in COUNTS)
    measure = "instructions"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        heading, count = draw_integer(generator, 0, 3), COUNTS[difficulty]
        turns = [generator.random() < 0.5 for _ in range(count - 1)]
        instructions = [
            one(generator, (LEFT, RIGHT)) if turn else draw_integer(generator, 1, 9) for turn in (*turns, False)
        ]
        x, y, _ = walk_instructions(heading, instructions)[-1]
        steps = ", ".join(map(instruction_words, instructions)).capitalize()
        prompt = f"Start at 0,0 facing {HEADINGS[heading]}. {steps}. Where are you? Answer as x,y."
        return Problem(prompt, f"{x},{y}", {"heading": heading, "instructions": instructions})

    def size(self, problem: Problem) -> int:
        return len(problem.data["instructions"])

    def reason(self, problem: Problem) -> str:
        """Write place and heading after each instruction."""
        seen = walk_instructions(problem.data["heading"], problem.data["instructions"])
        return "; ".join(f"{x},{y} {HEADINGS[heading]}" for x, y, heading in seen) + "."

    def parse_answer(self, problem: Problem, found: str) -> list[int] | None:
        """Return x and y."""
        numbers = answers.integers(found)
        return numbers if numbers is not None and len(numbers) == 2 else None
