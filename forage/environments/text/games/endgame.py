"""LMRL-Gym's chess endgames: mate a lonely king with a queen or a rook."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Iterator
from typing import ClassVar

from forage.environments.text.games.game import EXECUTED, Turn, check_whole, one_of, running

Square = tuple[int, int]  # file and rank, from 0
KING = tuple((a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0))
STRAIGHT = ((1, 0), (-1, 0), (0, 1), (0, -1))
LINES = {"Q": KING, "R": STRAIGHT}


@dataclasses.dataclass
class Endgame:
    """White has a king and one more piece, black a king, white moves first and should mate.

    Positions are shown as in FEN and moves written as in SAN (`Qd4`, `Kc3`), and checks may be marked. A mate earns 1;
    a move that is not legal earns -1 and the position stays; a draw (stalemate, the piece lost, 50 moves) and all else
    earn 0. LMRL-Gym's opponent is Stockfish at a rating of 1200, which is not here: this black king takes the piece if
    it can and else goes where it has most squares to go on to (`opponent="runs"`), or to any square (`"random"`).
    Starts are drawn from all positions in which black is not in check, wherever the mate is; LMRL-Gym leaves out easy
    ones.
    """

    names: ClassVar[tuple[str, ...]] = EXECUTED

    piece: str = "Q"  # or "R"
    opponent: str = "runs"  # or "random"
    horizon: int = 50  # white's turns, as by the rule of 50 moves

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("An endgame's piece", self.piece, tuple(LINES))
        one_of("An endgame's opponent", self.opponent, ("runs", "random"))
        check_whole("An endgame's horizon", self.horizon, 1, 1000)
        self.over = True

    def begin(self, seed: int) -> str:
        """Begin a game from a random position with black not in check and able to move."""
        self.draw = random.Random(seed)
        while True:
            self.king, self.other, self.black = ((self.draw.randrange(8), self.draw.randrange(8)) for _ in range(3))
            apart = len({self.king, self.other, self.black}) == 3 and not are_adjacent(self.king, self.black)
            if apart and not self.attacked(self.black) and self.escapes():
                break
        self.moves = self.turns = 0
        self.over = False
        return self.fen()

    def fen(self) -> str:
        """Return the position in the notation of Forsyth and Edwards."""
        signs = {self.king: "K", self.other: self.piece, self.black: "k"}
        rows = []
        for rank in range(7, -1, -1):
            row = "".join(signs.get((file, rank), ".") for file in range(8))
            rows.append(re.sub(r"\.+", lambda found: str(len(found[0])), row))
        return f"{'/'.join(rows)} w - - {2 * self.moves} {self.moves + 1}"

    def reach(self, start: Square, stops: set[Square]) -> Iterator[Square]:
        """Yield the squares that the piece attacks, the first occupied one on each line among them."""
        for a, b in LINES[self.piece]:
            file, rank = start[0] + a, start[1] + b
            while 0 <= file < 8 and 0 <= rank < 8:
                yield file, rank
                if (file, rank) in stops:
                    break
                file, rank = file + a, rank + b

    def attacked(self, square: Square) -> bool:
        """Return whether white attacks a square; squares behind the black king count as attacked."""
        return are_adjacent(self.king, square) or (
            self.other != square and square in self.reach(self.other, {self.king})
        )

    def escapes(self) -> list[Square]:
        """Return the squares open to the black king, including that of an unguarded piece."""
        near = [(self.black[0] + a, self.black[1] + b) for a, b in KING]
        inside = [(file, rank) for file, rank in near if 0 <= file < 8 and 0 <= rank < 8]
        return [square for square in inside if not self.attacked(square)]

    def legal(self, move: str) -> tuple[str, Square] | None:
        """Return the piece and the destination of a move in SAN; None unless it is legal."""
        found = re.fullmatch(rf"([K{self.piece}])([a-h])([1-8])[+#]?", "".join(move.split()))
        if not found:
            return None
        to = (ord(found[2]) - ord("a"), int(found[3]) - 1)
        if found[1] == "K":
            good = are_adjacent(self.king, to) and to != self.other and not are_adjacent(to, self.black)
        else:
            good = to in self.reach(self.other, {self.king, self.black}) and to not in (self.king, self.black)
        return (found[1], to) if good else None

    def reply(self, text: str) -> Turn:
        """Move white's piece, let black answer, and return the position."""
        running(self.over)
        self.turns += 1
        move = self.legal(text)
        self.told = {"executed": float(move is not None)}
        if move is None:
            self.over = self.turns >= self.horizon
            return f"{self.fen()}\nThat is no legal move.", -1.0, self.over
        self.moves += 1
        if move[0] == "K":
            self.king = move[1]
        else:
            self.other = move[1]
        free = self.escapes()
        if not free:
            self.over = True
            mate = self.attacked(self.black)
            return ("Checkmate." if mate else "Stalemate."), float(mate), True
        self.black = self.answer(free)
        if self.black == self.other:
            self.over = True
            return "Black has taken the piece: a draw.", 0.0, True
        self.over = self.turns >= self.horizon
        return ("A draw by the rule of 50 moves." if self.over else self.fen()), 0.0, self.over

    def answer(self, free: list[Square]) -> Square:
        """Return black's move."""
        if self.other in free:
            return self.other
        if self.opponent == "random":
            return self.draw.choice(free)
        was, room = self.black, {}
        for square in free:
            self.black = square
            room[square] = len(self.escapes())
        self.black = was
        return self.draw.choice([square for square in free if room[square] == max(room.values())])


def are_adjacent(one: Square, other: Square) -> bool:
    """Return whether two squares touch."""
    return max(abs(one[0] - other[0]), abs(one[1] - other[1])) == 1
