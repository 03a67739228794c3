"""Mazes drawn in letters: `#` wall, `.` free, `S` a start, `G` a goal, `C` either.

Without a start or goal of its own a maze may begin, or have its goal, in any free cell. All but the corridor are those
of Fu et al. (2020), "D4RL: Datasets for Deep Data-Driven Reinforcement Learning" (arXiv 2004.07219), as Gymnasium-
Robotics has them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forage.core.types import ForageError

LAYOUTS: dict[str, tuple[str, ...]] = {
    "UMaze": ("#####", "#...#", "###.#", "#...#", "#####"),
    "Open": ("#######", "#.....#", "#.....#", "#.....#", "#######"),
    "Medium": (
        "########",
        "#..##..#",
        "#..#...#",
        "##...###",
        "#..#...#",
        "#.#..#.#",
        "#...#..#",
        "########",
    ),
    "MediumDiverse": (
        "########",
        "#C.##..#",
        "#..#..C#",
        "##...###",
        "#..#...#",
        "#C#..#.#",
        "#...#C.#",
        "########",
    ),
    "Large": (
        "############",
        "#....#.....#",
        "#.##.#.#.#.#",
        "#......#...#",
        "#.####.###.#",
        "#..#.#.....#",
        "##.#.#.#.###",
        "#..#...#...#",
        "############",
    ),
    "LargeDiverse": (
        "############",
        "#C...#C....#",
        "#.##.#.#.#.#",
        "#....C.#..C#",
        "#.####.###.#",
        "#.C#.#.....#",
        "##.#.#.#.###",
        "#..#C.C#.C.#",
        "############",
    ),
    "Corridor": ("######################", "#S..................G#", "######################"),
}


def parse_maze(rows: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the walls, the starts and the goals of a maze drawn in letters. Raise `ForageError` for a bad drawing."""
    rows = tuple(rows)
    if not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
        raise ForageError("A maze needs rows of one length, such as ('####', '#..#', '####').")
    strange = set("".join(rows)) - set("#.SGC")
    if strange:
        raise ForageError(f"A maze has no letter {sorted(strange)[0]!r}; there are #, ., S, G and C.")
    letters = np.array([list(row) for row in rows])
    walls, starts, goals = letters == "#", np.isin(letters, ("S", "C")), np.isin(letters, ("G", "C"))
    return walls, starts if starts.any() else ~walls, goals if goals.any() else ~walls


def reachable(walls: np.ndarray, cell: tuple[int, int]) -> np.ndarray:
    """Return the free cells that a way leads to from `cell`, without cutting corners."""
    found = np.zeros_like(walls)
    found[cell] = True
    while True:
        grown = found.copy()
        grown[1:] |= found[:-1]
        grown[:-1] |= found[1:]
        grown[:, 1:] |= found[:, :-1]
        grown[:, :-1] |= found[:, 1:]
        grown &= ~walls
        if (grown == found).all():
            return found
        found = grown


def check_maze(walls: np.ndarray, starts: np.ndarray, goals: np.ndarray) -> None:
    """Raise `ForageError` for a maze that is open at its border or has a goal out of reach of some start."""
    if walls.ndim != 2 or starts.shape != walls.shape or goals.shape != walls.shape:
        raise ForageError(
            f"walls, starts and goals are arrays of one shape (rows, columns); "
            f"theirs are {walls.shape}, {starts.shape} and {goals.shape}."
        )
    if (~walls).sum() < 2:
        raise ForageError(f"A maze needs two free cells, one to begin in and one to reach; this has {(~walls).sum()}.")
    border = np.ones_like(walls)
    border[1:-1, 1:-1] = False
    if (border & ~walls).any():
        row, column = np.argwhere(border & ~walls)[0]
        raise ForageError(f"A maze is walled in all around; there is no wall at row {row}, column {column}.")
    for name, cells in (("start", starts), ("goal", goals)):
        if not cells.any() or (cells & walls).any():
            raise ForageError(f"A maze needs a {name}, and not in a wall.")
    if starts.sum() == 1 and (starts == goals).all():
        raise ForageError("A maze needs a goal in another cell than its only start.")
    found = reachable(walls, tuple(np.argwhere(starts)[0]))
    for name, cells in (("goal", goals), ("start", starts)):
        if (cells & ~found).any():
            row, column = np.argwhere(cells & ~found)[0]
            raise ForageError(
                f"The {name} at row {row}, column {column} cannot be reached from the start at "
                f"row {np.argwhere(starts)[0][0]}, column {np.argwhere(starts)[0][1]}; open a way between them."
            )
