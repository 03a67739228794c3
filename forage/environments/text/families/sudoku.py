"""Sudoku: small ones, of four rows, four columns and four blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.environments.text import answers
from forage.environments.text.draws import draw_several
from forage.environments.text.problems import Family, Problem

CELLS = range(16)
BLANKS = (2, 4, 6, 8, 10)  # by level


def groups() -> list[tuple[str, list[int]]]:
    """Return rows, columns and blocks: their names and cells."""
    rows = [(f"row {row + 1}", [4 * row + column for column in range(4)]) for row in range(4)]
    columns = [(f"column {column + 1}", [4 * row + column for row in range(4)]) for column in range(4)]
    blocks = [
        (f"block {2 * (row // 2) + column // 2 + 1}", [4 * (row + i) + column + j for i in (0, 1) for j in (0, 1)])
        for row in (0, 2)
        for column in (0, 2)
    ]
    return rows + columns + blocks


GROUPS = groups()
PEERS = [{other for _, cells in GROUPS if cell in cells for other in cells} - {cell} for cell in CELLS]


def possible(grid: str, cell: int) -> list[str]:
    """Return the digits that no row, column or block of a cell has yet."""
    taken = {grid[other] for other in PEERS[cell]}
    return [digit for digit in "1234" if digit not in taken]


def singles(grid: str) -> list[tuple[int, str]]:
    """Fill cells with a single possible digit one by one, until there is none left."""
    filled = []
    while True:
        found = next(
            ((cell, left[0]) for cell in CELLS if grid[cell] == "." and len(left := possible(grid, cell)) == 1), None
        )
        if found is None:
            return filled
        cell, digit = found
        grid = grid[:cell] + digit + grid[cell + 1 :]
        filled.append(found)


def complete(generator: np.random.Generator, grid: str = "." * 16) -> str:
    """Return a random whole grid, by trying digits in random order; empty if there is none."""
    cell = grid.find(".")
    if cell < 0:
        return grid
    digits = possible(grid, cell)
    for digit in draw_several(generator, digits, len(digits)):
        if found := complete(generator, grid[:cell] + digit + grid[cell + 1 :]):
            return found
    return ""


def grid_lines(grid: str) -> str:
    """Return a grid as four rows with strokes between them."""
    return "/".join(grid[row : row + 4] for row in range(0, 16, 4))


class Sudoku(Family):
    """Fill a grid so that each row, column and block of 2 x 2 holds 1, 2, 3 and 4; there is one way."""

    name = "sudoku"
    levels = tuple(f"{blanks} blanks of 16" for blanks in BLANKS)
    measure = "blanks"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        while True:
            whole = grid = complete(generator)
            for cell in generator.permutation(16):
                fewer = grid[:cell] + "." + grid[cell + 1 :]
                if grid.count(".") < BLANKS[difficulty] and len(singles(fewer)) == fewer.count("."):
                    grid = fewer
            if grid.count(".") == BLANKS[difficulty]:
                break
        prompt = f"Solve this sudoku of 4 x 4, row after row: {grid_lines(grid)}"
        return Problem(prompt, grid_lines(whole), {"grid": grid})

    def size(self, problem: Problem) -> int:
        return problem.data["grid"].count(".")

    def reason(self, problem: Problem) -> str:
        """Fill the cells with a single possible digit, one after the other."""
        filled = singles(problem.data["grid"])
        return ", ".join(f"row {cell // 4 + 1} column {cell % 4 + 1} is {digit}" for cell, digit in filled) + "."

    def parse_answer(self, problem: Problem, found: str) -> str | None:
        """Return the sixteen digits of four rows."""
        rows = answers.matching(found, r"[1-4]{4}(\s*[/\n]\s*[1-4]{4}){3}")
        return None if rows is None else "".join(filter(str.isdigit, rows))

    def judge(self, problem: Problem, value: Any) -> bool:
        """Return whether the given digits stayed and every group holds all four."""
        kept = all(given in (".", digit) for given, digit in zip(problem.data["grid"], value, strict=True))
        return kept and all({value[cell] for cell in cells} == set("1234") for _, cells in GROUPS)
