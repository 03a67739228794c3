"""Autoencode: watch a deck of cards go by, then recite its suits backwards."""

from __future__ import annotations

from typing import ClassVar

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import Step
from forage.environments.limits import check_at_least
from forage.environments.memory.cards import SUITS, CardsState, draw_cards, shuffle


class Autoencode(Environment):
    """A shuffled deck is shown card by card, then its suits have to be named in reverse order.

    With N cards in all: N - 1 steps of watching, in which actions do nothing, then N steps of reciting. The last card
    is still in sight when it is the first to be named; after that the blank observation is suit 0, as published.

    - Observation: `float32[5]`: 1 while watching, then the suit that is shown, one-hot.
    - Action: a suit, 0 to 3.
    - Reward: `1 / N` for each suit that is right, `-1 / N` for each that is wrong.
    - Terminated: after `2 N - 1` steps. Never truncated.

    Best return: 1 with memory. Without it the card in sight is certain and each other one a guess among four:
    `(2 (1 + (N - 1) / 4) - N) / N = 1.5 / N - 0.5`, which is -0.471 for one deck.

    The sizes of the paper: easy is 1 deck, medium 2, hard 3; the deck has 13 ranks.

    Source: Morad, Kortvelesy, Bettini, Liwicki and Prorok (2023), "POPGym: Benchmarking Partially Observable
    Reinforcement Learning" (arXiv 2303.01859).
    """

    ranges: ClassVar[Ranges] = {"num_decks": Range(1), "ranks": Range(1)}

    num_decks: int = equinox.field(default=1, static=True)
    ranks: int = equinox.field(default=13, static=True)  # cards of each suit in a deck

    def __check_init__(self):
        check_at_least(self, num_decks=1, ranks=1)

    @property
    def num_cards(self) -> int:
        return SUITS * self.ranks * self.num_decks

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0.0, 1.0, (1 + SUITS,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(SUITS)

    @property
    def horizon(self) -> int:
        return 2 * self.num_cards - 1

    def reset(self, key: Key[Array, ""]) -> tuple[CardsState, Float[Array, "5"]]:
        state = shuffle(self.num_decks, self.ranks, key)
        return state, self._observe(state)

    def step(self, state: CardsState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[CardsState, Step]:
        reciting = state.time >= self.num_cards - 1
        asked = jnp.clip(self._card_to_name(state), 0, self.num_cards - 1)
        share = 1.0 / self.num_cards
        answer = jnp.where(action == state.suits[asked], share, -share)
        reward = jnp.where(reciting, answer, 0.0).astype(jnp.float32)
        new_state = state._replace(time=state.time + 1)
        terminated = new_state.time >= self.horizon
        return new_state, Step(self._observe(new_state), reward, terminated, jnp.zeros((), bool), {})

    def _card_to_name(self, state: CardsState) -> Int[Array, ""]:
        """Return the index of the card to name, after all cards have been shown."""
        return 2 * self.num_cards - 2 - state.time

    def _watching(self, state: CardsState) -> Bool[Array, ""]:
        return state.time < self.num_cards - 1

    def _observe(self, state: CardsState) -> Float[Array, "5"]:
        suit = jnp.where(state.time < self.num_cards, state.suits[state.time], 0)
        return jnp.concatenate([self._watching(state)[None].astype(jnp.float32), jax.nn.one_hot(suit, SUITS)])

    def render(self, state: CardsState) -> UInt8[np.ndarray, "height width 3"]:
        last = self.num_cards - 1
        shown = min(int(state.time), last)
        asked = int(self._card_to_name(state)) if int(state.time) >= last else -1
        return draw_cards(state, shown, first=0 if asked >= 0 else shown, asked=asked)
