"""Key to door: a key picked up first opens a door last, and between them there are apples to eat."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Step
from forage.environments import drawing
from forage.environments.limits import check_at_least

EXPLORE, ORCHARD, DOOR_ROOM = range(3)
ROOMS = (
    (
        "  #######  ",
        "  #kkkkk#  ",
        "  #kkkkk#  ",
        "  ##   ##  ",
        "  #+++++#  ",
        "  #+++++#  ",
        "  #######  ",
    ),
    (
        "###########",
        "#a a a a a#",
        "# a a a a #",
        "#a a a a a#",
        "# a a a a #",
        "#a a + a a#",
        "###########",
    ),
    (
        "           ",
        "   ##d##   ",
        "   #   #   ",
        "   # + #   ",
        "   #   #   ",
        "   #####   ",
        "           ",
    ),
)
ROWS, COLUMNS = 7, 11
SIGN = (0, 5)
"""The cell of the mark that shows for one step after the key is picked up."""

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
CHANNELS = ("wall", "key", "apple", "door", "sign")
COLOURS = (drawing.INK, drawing.GOLD, drawing.RED, drawing.TEAL, drawing.SKY)
VIEW = 2
"""Cells that are seen in each direction."""


def cells_of(room: int, letter: str) -> np.ndarray:
    """Return the (row, column) of each cell of a room with this letter."""
    return np.argwhere(np.array([list(row) for row in ROOMS[room]]) == letter).astype(np.int32)


WALLS = np.array([[[letter == "#" for letter in row] for row in room] for room in ROOMS])
TREES = cells_of(ORCHARD, "a")


class KeyToDoorState(NamedTuple):
    position: Int[Array, "2"]  # row and column
    key: Int[Array, "2"]  # where it lies, or lay
    has_key: Bool[Array, ""]
    taken_at: Int[Array, ""]  # the step at which it was picked up, -1 before
    trees: Bool[Array, " tree"]  # which trees bear in this episode
    eaten_at: Int[Array, " tree"]  # the frame of the orchard at which the apple was eaten, -1 when it hangs there
    time: Int[Array, ""]  # steps taken


class KeyToDoor(Environment):
    """Three rooms, one after the other, each for a fixed time: a key, an orchard, a door.

    In the first room the agent may step on a key. In the second it eats apples, which grow again
    `respawn_steps + 1` steps later. In the third there is a door, which opens only for the key and pays once.
    The key pays nothing itself: its worth shows after the orchard, behind the noise of the apples.

    - Observation: `bool[5, 5, 5]`, the cells up to two away from the agent, north up; channels `wall`, `key`, `apple`,
      `door` and `sign`, which is lit for the one step at which the key was picked up.
    - Action: 0 north, 1 south, 2 west, 3 east; walls, and the door without the key, cannot be entered.
    - Reward: `apple_reward` for each apple, `door_reward` at the door with the key.
    - `info["key"]`, `info["door"]`: the key was picked up, and the door opened, in this episode so far.
    - Terminated: after `explore_steps + orchard_steps + door_steps` steps, 85 in all. Never truncated.

    Best return: `door_reward` for key and door, and the apples: in 60 steps each can be eaten three times at most, so
    30 bounds them; the authors reckon with about 23. Key and door take no memory, since what is in sight says all that
    the best way depends on; without the key the door pays 0. What is hard is the credit: `orchard_steps + door_steps`
    steps and more lie between the key and its pay.

    Source: Hung et al. (2019), "Optimizing agent behavior over long time scales by transporting value"
    (arXiv 1810.06721), in the rooms and rewards of Ni, Ma, Eysenbach and Bacon (2023), "When Do Transformers Shine in
    RL?" (arXiv 2307.03864). They show the same cells as colours.
    """

    frames_per_second: ClassVar[float] = 10.0
    ranges: ClassVar[Ranges] = {
        "explore_steps": Range(1),
        "orchard_steps": Range(0),
        "door_steps": Range(1),
        "num_apples": Range(0),
        "respawn_steps": Range(0),
        "apple_reward": Range(),
        "door_reward": Range(),
    }

    explore_steps: int = 15
    orchard_steps: int = 60  # the distractor phase: how long the key must be credited for
    door_steps: int = 10
    num_apples: int = 10  # of 22 trees
    respawn_steps: int = 20  # an apple hangs there again one step after this many
    apple_reward: float = 1.0
    door_reward: float = 5.0

    def __check_init__(self):
        check_at_least(self, explore_steps=1, orchard_steps=1, door_steps=1, num_apples=0, respawn_steps=0)
        if isinstance(self.num_apples, int) and self.num_apples > len(TREES):
            raise ForageError(f"KeyToDoor cannot have {self.num_apples} apples; there are {len(TREES)} trees.")

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0, 1, (2 * VIEW + 1, 2 * VIEW + 1, len(CHANNELS)), dtype=np.bool_)  # pyrefly: ignore[no-matching-overload]

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(4)

    @property
    def horizon(self) -> int:
        return self.explore_steps + self.orchard_steps + self.door_steps

    @property
    def info_names(self) -> tuple[str, ...]:
        return ("key", "door")

    def reset(self, key: Key[Array, ""]) -> tuple[KeyToDoorState, Bool[Array, "5 5 channel"]]:
        key_key, player_key, tree_key = jax.random.split(key, 3)
        state = KeyToDoorState(
            position=jax.random.choice(player_key, jnp.asarray(cells_of(EXPLORE, "+"))),
            key=jax.random.choice(key_key, jnp.asarray(cells_of(EXPLORE, "k"))),
            has_key=jnp.zeros((), bool),
            taken_at=jnp.full((), -1, jnp.int32),
            trees=jax.random.permutation(tree_key, len(TREES)) < self.num_apples,
            eaten_at=jnp.full(len(TREES), -1, jnp.int32),
            time=jnp.zeros((), jnp.int32),
        )
        return state, self._observe(state)

    def room(self, time: Int[Array, ""]) -> Int[Array, ""]:
        """Return the index of the agent's room after `time` steps."""
        return (time >= self.explore_steps).astype(jnp.int32) + (time >= self.explore_steps + self.orchard_steps)

    def step(self, state: KeyToDoorState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[KeyToDoorState, Step]:
        room, time = self.room(state.time), state.time + 1
        doors = jnp.asarray(cells_of(DOOR_ROOM, "d"))[0]
        ahead = state.position + jnp.array(MOVES, jnp.int32)[action]
        inside = ((ahead >= 0) & (ahead < jnp.array([ROWS, COLUMNS]))).all()
        at_door = (room == DOOR_ROOM) & (ahead == doors).all()
        opened = state.taken_at >= 0  # and it stays open, although the key is gone
        blocked = jnp.asarray(WALLS)[room, ahead[0], ahead[1]] | (at_door & ~opened)
        position = jnp.where(inside & ~blocked, ahead, state.position)

        taken = (room == EXPLORE) & (state.taken_at < 0) & (position == state.key).all()
        opens = (room == DOOR_ROOM) & state.has_key & (position == doors).all()

        frame = time - self.explore_steps
        here = (room == ORCHARD) & state.trees & (jnp.asarray(TREES) == position).all(-1)
        eats = here & (state.eaten_at < 0)
        grown = frame > state.eaten_at + self.respawn_steps
        eaten_at = jnp.where(eats, frame, jnp.where(grown, -1, state.eaten_at))
        reward = self.apple_reward * eats.any() + self.door_reward * opens

        # Each room is entered at its own cell.
        entered = self.room(time) != room
        starts = jnp.asarray(np.concatenate([cells_of(room, "+")[:1] for room in range(3)]))
        new_state = KeyToDoorState(
            position=jnp.where(entered, starts[self.room(time)], position),
            key=state.key,
            has_key=(state.has_key | taken) & ~opens,
            taken_at=jnp.where(taken, time, state.taken_at),
            trees=state.trees,
            eaten_at=jnp.where(room == ORCHARD, eaten_at, state.eaten_at),
            time=time,
        )
        terminated, taken = time >= self.horizon, new_state.taken_at >= 0
        info = {"key": taken, "door": taken & ~new_state.has_key}
        return new_state, Step(
            self._observe(new_state), jnp.asarray(reward, jnp.float32), terminated, jnp.zeros((), bool), info
        )

    def board(self, state: KeyToDoorState) -> Bool[Array, "row column channel"]:
        """Return the whole room, cell by cell."""
        room = self.room(state.time)
        rows, columns = jnp.arange(ROWS)[:, None], jnp.arange(COLUMNS)

        def at(cell: Array) -> Bool[Array, "row column"]:
            return (rows == cell[0]) & (columns == cell[1])

        hanging = state.trees & (state.eaten_at < 0)
        apples = jnp.zeros((ROWS, COLUMNS), bool).at[TREES[:, 0], TREES[:, 1]].set(hanging)
        channels = (
            jnp.asarray(WALLS)[room],
            at(state.key) & (state.taken_at < 0) & (room == EXPLORE),
            apples & ~at(state.position) & (room == ORCHARD),  # what hangs behind the agent is hidden
            at(cells_of(DOOR_ROOM, "d")[0]) & (room == DOOR_ROOM),
            at(jnp.array(SIGN)) & (state.taken_at == state.time) & (room == EXPLORE),
        )
        # A cell shows one thing: the mark is on a wall.
        return jnp.stack([channels[0] & ~channels[4], *channels[1:]], axis=-1)

    def _observe(self, state: KeyToDoorState) -> Bool[Array, "5 5 channel"]:
        board = jnp.pad(self.board(state), ((VIEW, VIEW), (VIEW, VIEW), (0, 0)))
        size = (2 * VIEW + 1, 2 * VIEW + 1, len(CHANNELS))
        return jax.lax.dynamic_slice(board, (state.position[0], state.position[1], 0), size)

    def render(self, state: KeyToDoorState) -> UInt8[np.ndarray, "height width 3"]:
        cell = 36
        board = np.asarray(self.board(state))
        row, column = (int(value) for value in state.position)
        canvas = drawing.Canvas(COLUMNS * cell, ROWS * cell)
        for y in range(ROWS):
            for x in range(COLUMNS):
                near = abs(y - row) <= VIEW and abs(x - column) <= VIEW
                left, top = x * cell, y * cell
                shade = drawing.mix(drawing.MIST, drawing.SKY, 0.6) if near else drawing.MIST
                for channel in np.flatnonzero(board[y, x]):
                    if channel in (1, 2):  # a thing that lies or hangs there
                        continue
                    shade = COLOURS[channel] if near else drawing.mix(COLOURS[channel], drawing.PAPER, 0.35)
                canvas.rectangle((left + 1, top + 1), (left + cell - 1, top + cell - 1), shade, 3)
                for channel in (1, 2):
                    if board[y, x, channel]:
                        canvas.circle((left + cell / 2, top + cell / 2), 0.27 * cell, COLOURS[channel])
        canvas.circle(((column + 0.5) * cell, (row + 0.5) * cell), 0.36 * cell, drawing.ORANGE)
        if bool(state.has_key):
            canvas.circle(((column + 0.5) * cell, (row + 0.5) * cell), 0.16 * cell, drawing.GOLD)
        return canvas.array()
