"""The content of a grid cell as one byte, and as MiniGrid's triple `(object, colour, state)`.

Bits 0-3 are the kind: MiniGrid's object, or 11 and 12 for a closed and a locked door. Bits 4-6 are the colour. With bit
7 set the cell is a box of that colour that holds an object: bit 3 is set for a ball and clear for a key, and bits 0-2
are the colour of that object.

Chevalier-Boisvert et al. (2023), "Minigrid & Miniworld: Modular & Customizable Reinforcement Learning Environments for
Goal-Oriented Tasks", arXiv 2306.13831.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped, UInt8

UNSEEN, EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL, LAVA, AGENT = range(11)
"""MiniGrid's objects. As kinds, `DOOR` is an open door."""

CLOSED_DOOR, LOCKED_DOOR = 11, 12

OBJECTS = ("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent")
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
RED, GREEN, BLUE, PURPLE, YELLOW, GREY = range(6)

HOLDS = 0x80
"""The bit of a box that holds an object."""


def cell(kind: Any, colour: Any = 0) -> Any:
    """Return the byte of a kind in a colour; numbers and arrays both work."""
    return kind | colour << 4


def box_with(colour: Any, contents: Any) -> Any:
    """Return the byte of a box of some colour that holds a key or a ball, given as its byte."""
    return HOLDS | colour << 4 | ((contents & 15) == BALL) << 3 | contents >> 4


WALL_CELL = cell(WALL, GREY)
GOAL_CELL = cell(GOAL, GREEN)
LAVA_CELL = cell(LAVA, RED)


def _kind(byte: int) -> int:
    return BOX if byte & HOLDS else byte & 15


def _toggle(byte: int) -> int:
    kind, colour = _kind(byte), byte & 0x70
    if byte & HOLDS:
        return cell(BALL if byte & 8 else KEY, byte & 7)
    return {DOOR: CLOSED_DOOR | colour, CLOSED_DOOR: DOOR | colour, BOX: EMPTY}.get(kind, byte)


_BYTES = range(256)
TRIPLES = np.array(
    [(min(_kind(b), DOOR) if _kind(b) > AGENT else _kind(b), b >> 4 & 7, max(_kind(b) - 10, 0)) for b in _BYTES],
    np.uint8,
)
"""MiniGrid's `(object, colour, state)` of each byte."""

CLEAR = np.array([_kind(b) not in (WALL, CLOSED_DOOR, LOCKED_DOOR) for b in _BYTES], np.uint8)
"""By cell byte: 1 if the agent can see past the cell."""

ENTERED = np.array([_kind(b) in (EMPTY, FLOOR, DOOR, GOAL, LAVA) for b in _BYTES])
"""By cell byte: whether the agent can step onto the cell."""

CARRIED = np.array([_kind(b) in (KEY, BALL, BOX) for b in _BYTES])
"""By cell byte: whether the agent can pick up the content."""

TOGGLED = np.array([_toggle(b) for b in _BYTES], np.uint8)
"""By cell byte: the cell after a toggle without the right key."""


def look_up(table: np.ndarray, cells: Shaped[Array, "*shape"]) -> Shaped[Array, "*shape ..."]:
    """Return the entries of a table with a row for each byte, or for each possible index."""
    return jnp.asarray(table).at[cells].get(mode="promise_in_bounds")


def encode_cells(cells: UInt8[Array, "*shape"]) -> UInt8[Array, "*shape 3"]:
    """MiniGrid's triples of cells."""
    return look_up(TRIPLES, cells)


def decode(triples: Int[np.ndarray, "*shape 3"]) -> UInt8[np.ndarray, "*shape"]:
    """Return the cells of MiniGrid's triples, on the host. Boxes come out empty, since a triple does not show
    contents.
    """
    kind, colour, state = np.moveaxis(np.asarray(triples, np.uint8), -1, 0)
    return cell(np.where((kind == DOOR) & (state > 0), 10 + state, kind), colour).astype(np.uint8)
