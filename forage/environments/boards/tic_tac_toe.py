"""Tic-tac-toe: two players, in turns, and three in a row win."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.spaces import MASK, PRESENCE, PRESENT
from forage.core.types import Step
from forage.environments import drawing

CELLS = 9
LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])
"""The cells of each row, column and diagonal; cells are numbered row by row."""


class TicTacToeState(NamedTuple):
    marks: Bool[Array, "player=2 cell=9"]
    turn: Int[Array, ""]  # the player who moves next


class TicTacToe(Environment):
    """Two agents take turns to mark a cell of a 3 x 3 board; agent 0 begins.

    - Observation of each agent: `"observation"` is `float32[19]`, its own marks, the other's, and 1 where it moves;
      `"action_mask"` has the free cells; `"forage:present"` is 1 where it moves and 0 where it waits. An agent that
      waits is not heard, and its mask allows action 0 alone, so that the best of its actions is the value of waiting.
    - Action: a cell, 0 to 8. A cell that is not free loses the game.
    - Reward: 1 to who has three in a row and -1 to the other, at the move that makes them; 0 for a draw.
    - Terminated: when somebody has won or the board is full. Each move is a step.
    """

    frames_per_second: ClassVar[float] = 2.0

    @property
    def observation_space(self) -> gymnasium.spaces.Dict:
        return gymnasium.spaces.Dict(
            {
                "observation": gymnasium.spaces.Box(0.0, 1.0, (2 * CELLS + 1,), np.float32),
                MASK: gymnasium.spaces.MultiBinary(CELLS),
                PRESENT: PRESENCE,
            }
        )

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(CELLS)

    @property
    def num_agents(self) -> int:
        return 2

    @property
    def competitive(self) -> bool:
        return True

    @property
    def horizon(self) -> int:
        return CELLS

    def reset(self, key: Key[Array, ""]) -> tuple[TicTacToeState, dict[str, Array]]:
        state = TicTacToeState(jnp.zeros((2, CELLS), bool), jnp.int32(0))
        return state, self._observe(state)

    def step(
        self, state: TicTacToeState, action: Int[Array, "agent=2"], key: Key[Array, ""]
    ) -> tuple[TicTacToeState, Step]:
        mover, cell = state.turn, action[state.turn]
        legal = ~state.marks[:, cell].any()
        marks = state.marks.at[mover, cell].set(legal | state.marks[mover, cell])
        won = legal & marks[mover][LINES].all(-1).any()
        over = won | ~legal | marks.any(0).all()
        outcome = jnp.where(legal, won.astype(jnp.float32), -1.0)  # to the mover
        reward = jnp.where(jnp.arange(2) == mover, outcome, -outcome)
        state = TicTacToeState(marks, 1 - mover)
        terminated = jnp.broadcast_to(over, (2,))
        return state, Step(self._observe(state), reward, terminated, jnp.zeros(2, bool), {})

    def _observe(self, state: TicTacToeState) -> dict[str, Array]:
        moves = jnp.arange(2) == state.turn
        seen = jnp.concatenate([state.marks, state.marks[::-1], moves[:, None]], 1)
        mask = jnp.where(moves[:, None], ~state.marks.any(0), jnp.arange(CELLS) == 0)
        return {"observation": seen.astype(jnp.float32), MASK: mask.astype(jnp.int8), PRESENT: moves.astype(jnp.int8)}

    def render(self, state: TicTacToeState) -> UInt8[np.ndarray, "height width 3"]:
        canvas, cell = drawing.Canvas(240, 240), 80
        for line in (cell, 2 * cell):
            canvas.line([(line, 10), (line, 230)], drawing.INK, 4)
            canvas.line([(10, line), (230, line)], drawing.INK, 4)
        crosses, noughts = np.asarray(state.marks)
        for place in range(CELLS):
            x, y = (place % 3 + 0.5) * cell, (place // 3 + 0.5) * cell
            if crosses[place]:
                canvas.line([(x - 22, y - 22), (x + 22, y + 22)], drawing.RED, 8)
                canvas.line([(x - 22, y + 22), (x + 22, y - 22)], drawing.RED, 8)
            elif noughts[place]:
                canvas.ring((x, y), 24, drawing.BLUE, 8)
        return canvas.array()
