"""Perfect play at tic-tac-toe, by looking at every position that can come up."""

from __future__ import annotations

import functools

import equinox
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree

from forage.core import spaces
from forage.core.ports import Opponent
from forage.core.types import Spec
from forage.environments.boards.tic_tac_toe import CELLS, LINES

Board = tuple[int, ...]
"""Each cell: 0 free, 1 the mover's, 2 the other's."""
POWERS = 3 ** np.arange(CELLS)


def play_move(board: Board, cell: int) -> Board:
    """Return the board after the mover's mark, seen from the other player, the next to move."""
    return tuple(1 if i == 2 else 2 if i == 1 else 0 for i in (*board[:cell], 1, *board[cell + 1 :]))


def is_lost(board: Board) -> bool:
    """Return whether the player before the mover has three in a row."""
    return any(all(board[i] == 2 for i in line) for line in LINES)


def free_cells(board: Board) -> list[int]:
    return [cell for cell in range(CELLS) if not board[cell]]


@functools.cache
def value(board: Board) -> int:
    """Return the value of the position for the mover under perfect play: 1, 0 or -1."""
    if is_lost(board):
        return -1
    return max((-value(play_move(board, cell)) for cell in free_cells(board)), default=0)


@functools.cache
def best_moves() -> Bool[np.ndarray, "board cell"]:
    """Return the moves that keep the value of each position; boards are numbered in base 3."""
    table = np.zeros((3**CELLS, CELLS), bool)
    waiting: list[Board] = [(0,) * CELLS]
    seen = set(waiting)
    while waiting:
        board = waiting.pop()
        if is_lost(board):
            continue
        for cell in free_cells(board):
            after = play_move(board, cell)
            table[np.dot(board, POWERS), cell] = -value(after) == value(board)
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return table


class Perfect(Opponent):
    """A player with optimal moves, drawn uniformly among them."""

    best: Bool[Array, "board cell"] = equinox.field(default_factory=lambda: jnp.asarray(best_moves()))

    def act(
        self, hidden: PyTree[Array], observation: PyTree[Array], spec: Spec, key: Key[Array, ""]
    ) -> tuple[Int[Array, ""], PyTree[Array]]:
        own, other = observation["observation"][: 2 * CELLS].reshape(2, CELLS)
        board = jnp.dot((own + 2 * other).astype(jnp.int32), jnp.asarray(POWERS, jnp.int32))
        return spaces.sample(spec.action_space, key, self.best[board]), hidden
