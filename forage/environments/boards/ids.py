"""The ids of the board games."""

from __future__ import annotations

from forage.environments.entry import Entry

ENTRIES: dict[str, Entry] = {
    "boards:TicTacToe": Entry(
        "boards.tic_tac_toe:TicTacToe", "Two players in turns; three in a row win. Well played, it is a draw."
    ),
}
