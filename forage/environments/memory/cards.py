"""A shuffled deck of cards, its shuffling and its picture, shared by the two card games."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, UInt8

from forage.environments import drawing

SUITS = 4
COLOURS = (drawing.INK, drawing.RED, drawing.TEAL, drawing.GOLD)


class CardsState(NamedTuple):
    suits: Int[Array, " card"]  # of the cards, in the order in which they are shown
    time: Int[Array, ""]  # steps taken


def shuffle(decks: int, ranks: int, key: Key[Array, ""]) -> CardsState:
    """Begin a new episode: `decks` decks of `ranks` cards of each suit in random order."""
    suits = jnp.arange(SUITS * ranks * decks, dtype=jnp.int32) % SUITS
    return CardsState(jax.random.permutation(key, suits), jnp.zeros((), jnp.int32))


def draw_cards(state: CardsState, shown: int, first: int, asked: int) -> UInt8[np.ndarray, "height width 3"]:
    """Return all cards in rows of 26: to come face down, past and of no use pale, shown and asked for framed."""
    suits = np.asarray(state.suits)
    columns = min(26, len(suits))
    rows = -(-len(suits) // columns)
    width, height = 390 / columns, max(22.0, 150.0 / max(rows, 3))
    canvas = drawing.Canvas(400, round(rows * height) + 10)
    for index, suit in enumerate(suits):
        x, y = 5 + (index % columns) * width, 5 + (index // columns) * height
        colour = COLOURS[int(suit)]
        if index > shown:
            colour = drawing.MIST
        elif index < first:
            colour = drawing.mix(colour, drawing.PAPER, 0.75)
        if index in (asked, shown):
            canvas.rectangle((x, y), (x + width, y + height), drawing.ORANGE if index == asked else drawing.STONE, 3)
        canvas.rectangle((x + 2, y + 2), (x + width - 2, y + height - 2), colour, 2)
    return canvas.array()
