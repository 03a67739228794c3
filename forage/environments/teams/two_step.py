"""The two-step game: a test of teams with values that are only sums of their members' values."""

from __future__ import annotations

from typing import ClassVar

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.types import Step
from forage.environments import drawing

MEMBERS = 2
CHOICE, SAFE, RISKY = range(3)
"""The states: 1, 2A and 2B in the paper."""

PAYOFFS = (((0.0, 0.0), (0.0, 0.0)), ((7.0, 7.0), (7.0, 7.0)), ((0.0, 1.0), (1.0, 8.0)))
"""The common reward in each state, by the first agent's action and the second one's."""


def payoffs() -> Float[Array, "state=3 first=2 second=2"]:
    return jnp.asarray(PAYOFFS)


class TwoStep(Environment):
    """Two agents play two steps: in the first the first agent chooses the game of the second.

    | state      | pays, by both actions (0, 0), (0, 1), (1, 0), (1, 1) | and leads to                        |
    |------------|------------------------------------------------------|-------------------------------------|
    | 0 (1)      | 0, 0, 0, 0                                           | state 1 + the first agent's action  |
    | 1 (2A)     | 7, 7, 7, 7                                           | the end                             |
    | 2 (2B)     | 0, 1, 1, 8                                           | the end                             |

    - Observation: of each agent `float32[3]`, the state one-hot.
    - Action: of each agent 0 or 1.
    - Reward: the payoff, to both. Terminated: after two steps, for both. Never truncated.

    Best return: 8, in state 2 by 1 and 1. Random play earns 4.75. No sum of the agents' values gives the payoffs of
    state 2: the nearest one to all four, -1.5, 2.5, 2.5 and 6.5, makes the team prefer the 7.

    Source: Rashid, Samvelyan, Schroeder de Witt, Farquhar, Foerster, Whiteson (2018), "QMIX: Monotonic Value Function
    Factorisation for Deep Multi-Agent Reinforcement Learning", arXiv 1803.11485, the two-step game.
    """

    frames_per_second: ClassVar[float] = 2.0

    payoffs: Float[Array, "state=3 first=2 second=2"] = equinox.field(default_factory=payoffs)

    @property
    def num_agents(self) -> int:
        return MEMBERS

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0.0, 1.0, (len(PAYOFFS),), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(2)

    @property
    def horizon(self) -> int:
        return 2

    def reset(self, key: Key[Array, ""]) -> tuple[Int[Array, ""], Float[Array, "agent=2 state=3"]]:
        state = jnp.int32(CHOICE)
        return state, self._observe(state)

    def step(
        self, state: Int[Array, ""], action: Int[Array, "agent=2"], key: Key[Array, ""]
    ) -> tuple[Int[Array, ""], Step]:
        first, second = action
        reward = jnp.asarray(self.payoffs)[state, first, second]
        over = state != CHOICE
        after = jnp.where(over, state, SAFE + first).astype(jnp.int32)
        both = lambda x: jnp.broadcast_to(x, (MEMBERS,))  # noqa: E731
        return after, Step(self._observe(after), both(reward), both(over), jnp.zeros(MEMBERS, bool), {})

    def _observe(self, state: Int[Array, ""]) -> Float[Array, "agent=2 state=3"]:
        return jnp.broadcast_to(jax.nn.one_hot(state, len(PAYOFFS)), (MEMBERS, len(PAYOFFS)))

    def render(self, state: Int[Array, ""]) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the payoffs of the three states; the state it is in has a red frame."""
        canvas, cell = drawing.Canvas(480, 160), 80
        for index, table in enumerate(np.asarray(self.payoffs)):
            left = 160 * index
            for (row, column), paid in np.ndenumerate(table):
                x, y = left + column * cell, row * cell
                canvas.rectangle((x + 4, y + 4), (x + cell - 4, y + cell - 4), drawing.SKY)
                canvas.text((x + cell / 2, y + cell / 2), f"{paid:g}", drawing.INK, 0.34 * cell)
            if index == int(state):
                corners = [(left + 2, 2), (left + 158, 2), (left + 158, 158), (left + 2, 158), (left + 2, 2)]
                canvas.line(corners, drawing.RED, 4)
        return canvas.array()
