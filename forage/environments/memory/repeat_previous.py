"""Repeat previous: name the suit of the card shown k - 1 cards ago."""

from __future__ import annotations

from typing import ClassVar

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Step
from forage.environments.limits import check_at_least
from forage.environments.memory.cards import SUITS, CardsState, draw_cards, shuffle


class RepeatPrevious(Environment):
    """Cards are dealt one a step from a shuffled deck; the suit of the k-th newest card has to be named.

    With N cards in all, the first card is seen at reset and each step deals one more. An action is an answer as soon as
    k cards have been seen, so N - k of them count, and the card shown now is the first newest.

    - Observation: `float32[4]`, the suit of the newest card, one-hot.
    - Action: a suit, 0 to 3.
    - Reward: `1 / (N - k)` for the right suit, `-1 / (N - k)` for a wrong one, 0 while fewer than k cards were seen.
    - Terminated: after N - 1 steps, when the last card was dealt. Never truncated.

    Best return: 1 with memory. Without it, and for k > 1, two cards of a shuffled deck are of two given different suits
    more often than of one, so the best is to name any suit but the one shown:
    `2 (N / 4) / (N - 1) - 1`, which is -0.490 for one deck. For k = 1 it is 1.

    The sizes of the paper: easy is 1 deck and k = 4, medium 2 and 32, hard 3 and 64; the deck has 13 ranks.

    Source: Morad, Kortvelesy, Bettini, Liwicki and Prorok (2023), "POPGym: Benchmarking Partially Observable
    Reinforcement Learning" (arXiv 2303.01859).
    """

    ranges: ClassVar[Ranges] = {"num_decks": Range(1), "ranks": Range(1), "k": Range(1)}

    num_decks: int = equinox.field(default=1, static=True)
    ranks: int = equinox.field(default=13, static=True)  # cards of each suit in a deck
    k: int = 4  # which card is asked for, counted back from the newest

    def __check_init__(self):
        check_at_least(self, num_decks=1, ranks=1, k=1)
        if isinstance(self.k, int) and self.k >= self.num_cards:
            raise ForageError(
                f"RepeatPrevious cannot ask for card {self.k} of {self.num_cards}; k up to {self.num_cards - 1} works."
            )

    @property
    def num_cards(self) -> int:
        return SUITS * self.ranks * self.num_decks

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0.0, 1.0, (SUITS,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(SUITS)

    @property
    def horizon(self) -> int:
        return self.num_cards - 1

    def reset(self, key: Key[Array, ""]) -> tuple[CardsState, Float[Array, "suit=4"]]:
        state = shuffle(self.num_decks, self.ranks, key)
        return state, self._observe(state)

    def step(self, state: CardsState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[CardsState, Step]:
        asked = state.time + 1 - self.k
        share = 1.0 / (self.num_cards - self.k)
        answer = jnp.where(action == state.suits[jnp.maximum(asked, 0)], share, -share)
        reward = jnp.where(asked >= 0, answer, 0.0).astype(jnp.float32)
        new_state = state._replace(time=state.time + 1)
        terminated = new_state.time >= self.horizon
        return new_state, Step(self._observe(new_state), reward, terminated, jnp.zeros((), bool), {})

    def _observe(self, state: CardsState) -> Float[Array, "suit=4"]:
        return jax.nn.one_hot(state.suits[state.time], SUITS)

    def render(self, state: CardsState) -> UInt8[np.ndarray, "height width 3"]:
        time, k = int(state.time), int(self.k)
        return draw_cards(state, shown=min(time, self.horizon), first=max(0, time + 1 - k), asked=time + 1 - k)
