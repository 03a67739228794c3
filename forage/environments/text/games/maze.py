"""LMRL-Gym's maze: find the way by words such as `move left`."""

from __future__ import annotations

import dataclasses
import random
from typing import ClassVar

from forage.environments.text.games.game import EXECUTED, Turn, check_whole, one_of, running

MOVES = {"move left": (0, -1), "move right": (0, 1), "move up": (-1, 0), "move down": (1, 0)}
SIDES = {"to your right": (0, 1), "to your left": (0, -1), "above you": (-1, 0), "below you": (1, 0)}
WALL = "#"

# Mazes of LMRL-Gym: rows, the start of its evaluations, and the goal; a place is a row and a column, from 0.
LAYOUTS: dict[str, tuple[tuple[str, ...], tuple[int, int], tuple[int, int]]] = {
    "u": (("#####", "#...#", "#.#.#", "#.#.#", "#####"), (3, 1), (3, 3)),
    "double-t": (
        (
            "#############",
            "#.....#.....#",
            "###.#####.###",
            "###.#####.###",
            "###.#####.###",
            "###.......###",
            "######.######",
            "######.######",
            "######.######",
            "#############",
        ),
        (1, 1),
        (8, 6),
    ),
}


@dataclasses.dataclass
class Maze:
    """A maze of corridors; each move costs 1 and words that are no move 4, until the goal is reached.

    With `sees="position"` the player reads where it is, where the goal is and which walls are near (fully observed);
    with `sees="walls"` the walls alone. Digits of a place stand apart (`1 0`), as in LMRL-Gym. A generated maze is a
    tree of corridors, another one for each seed; start and goal are drawn.
    """

    names: ClassVar[tuple[str, ...]] = EXECUTED

    layout: str = "double-t"  # "double-t" and "u", as in LMRL-Gym, or "generated"
    sees: str = "position"  # or "walls"
    start: str = "fixed"  # where LMRL-Gym's evaluations begin, or "random"
    size: int = 4  # cells along a side of a generated maze
    horizon: int = 100  # moves, after which the next words end the game

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("A maze's layout", self.layout, (*LAYOUTS, "generated"))
        one_of("What a maze's player sees", self.sees, ("position", "walls"))
        one_of("A maze's start", self.start, ("fixed", "random"))
        check_whole("A maze's size", self.size, 2, 20)
        check_whole("A maze's horizon", self.horizon, 1, 10_000)
        self.over = True

    def begin(self, seed: int) -> str:
        """Begin a game."""
        draw = random.Random(seed)
        if self.layout == "generated":
            self.rows = tree_maze(self.size, draw)
            self.place, self.goal = draw.sample(self.free(), 2)
        else:
            self.rows, self.place, self.goal = LAYOUTS[self.layout]
            if self.start == "random":
                self.place = draw.choice([place for place in self.free() if place != self.goal])
        self.moves, self.over = 0, False
        return self.words()

    def free(self) -> list[tuple[int, int]]:
        """Return all places without a wall."""
        return [(y, x) for y, row in enumerate(self.rows) for x, sign in enumerate(row) if sign != WALL]

    def wall(self, step: tuple[int, int]) -> bool:
        """Return whether there is a wall a step away."""
        return self.rows[self.place[0] + step[0]][self.place[1] + step[1]] == WALL

    def words(self) -> str:
        """Return the player's observation in words."""
        walls = [side for side, step in SIDES.items() if self.wall(step)]
        near = {0: "There are no walls near you.", 1: f"There is a wall {walls[0] if walls else ''}."}
        said = near.get(len(walls), f"There are walls {', '.join(walls)}.")
        if self.sees == "walls":
            return said
        goal = f"The goal is at position {space_digits(self.goal)}."
        return f"{goal} Your current position is at position {space_digits(self.place)}. {said}"

    def reply(self, text: str) -> Turn:
        """Move, and return the new observation."""
        running(self.over)
        self.told = {"executed": 0.0}
        if self.moves >= self.horizon:
            self.over = True
            return "Failure", -1.0, True
        move = MOVES.get(text.strip())
        self.told = {"executed": float(move is not None and not self.wall(move))}
        if move and not self.wall(move):
            self.place = (self.place[0] + move[0], self.place[1] + move[1])
        if self.place == self.goal:
            self.over = True
            return "Success", 0.0, True
        self.moves += 1
        return self.words(), -1.0 if move else -4.0, False


def space_digits(place: tuple[int, int]) -> str:
    """Return a place with its digits apart."""
    return ", ".join(" ".join(str(number)) for number in place)


def tree_maze(size: int, draw: random.Random) -> tuple[str, ...]:
    """Return a maze with exactly one way between any two cells, by a random walk with backtracking."""
    rows = [[WALL] * (2 * size + 1) for _ in range(2 * size + 1)]
    trail = [(draw.randrange(size), draw.randrange(size))]
    rows[2 * trail[0][0] + 1][2 * trail[0][1] + 1] = "."
    while trail:
        y, x = trail[-1]
        fresh = [
            (y + a, x + b)
            for a, b in MOVES.values()
            if 0 <= y + a < size and 0 <= x + b < size and rows[2 * (y + a) + 1][2 * (x + b) + 1] == WALL
        ]
        if not fresh:
            trail.pop()
            continue
        b, a = draw.choice(fresh)
        rows[2 * b + 1][2 * a + 1] = rows[y + b + 1][x + a + 1] = "."
        trail.append((b, a))
    return tuple("".join(row) for row in rows)
