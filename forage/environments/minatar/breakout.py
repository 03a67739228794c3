"""Breakout: a paddle keeps a diagonally flying ball in play to break three rows of bricks.

Kenny Young, Tian Tian (2019), "MinAtar", arXiv 1903.03176.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from forage.core.types import Step
from forage.environments.minatar.common import (
    LINE,
    SIZE,
    Flag,
    MinAtar,
    Number,
    Observation,
    as_integer,
    bit,
    board_channels,
    on_line,
)

WALL = (1 << 3 * SIZE) - 1


class BreakoutState(NamedTuple):
    paddle: Number  # column; the paddle is in row 9
    ball_x: Number
    ball_y: Number
    direction: Number  # 0 up-left, 1 up-right, 2 down-right, 3 down-left
    last_x: Number
    last_y: Number
    bricks: Number  # bit 10 * (row - 1) + column, rows 1 to 3
    strike: Flag  # the ball broke a brick and has not left the bricks since
    last_action: Number
    time: Number


class BreakoutDraws(NamedTuple):
    repeat: Flag  # sticky action


class Breakout(MinAtar):
    """A reward of 1 for each brick; the episode ends once the ball passes the paddle. Difficulty does not ramp."""

    channels = ("paddle", "ball", "trail", "brick")
    minimal_action_set = "nlr"
    palette = ((94, 196, 255), (255, 255, 255), (120, 124, 150), (236, 110, 76))

    def reset(self, key: Key[Array, ""]) -> tuple[BreakoutState, Observation]:
        from_right = jax.random.bernoulli(key)
        x, y = jnp.where(from_right, as_integer(9), as_integer(0)), as_integer(3)
        state = BreakoutState(
            paddle=as_integer(4),
            ball_x=x,
            ball_y=y,
            direction=jnp.where(from_right, as_integer(3), as_integer(2)),
            last_x=x,
            last_y=y,
            bricks=as_integer(WALL),
            strike=jnp.asarray(False),
            last_action=as_integer(0),
            time=as_integer(0),
        )
        return state, self.observe(state)

    def draw(self, key: Key[Array, ""]) -> BreakoutDraws:
        return BreakoutDraws(repeat=jax.random.bernoulli(key, self.sticky_action_prob))

    def advance(self, state: BreakoutState, action: Number, draws: BreakoutDraws) -> tuple[BreakoutState, Step]:
        action = jnp.where(draws.repeat, state.last_action, as_integer(action))
        step_x = as_integer(self.is_pressed(action, "r")) - as_integer(self.is_pressed(action, "l"))
        paddle = jnp.clip(state.paddle + step_x, 0, 9)

        direction = state.direction
        x = state.ball_x + jnp.where((direction == 0) | (direction == 3), -1, 1)
        y = state.ball_y + jnp.where(direction < 2, -1, 1)
        # Exclusive or with 1 mirrors a direction left to right, with 3 top to bottom, with 2 both.
        direction = jnp.where((x < 0) | (x > 9), direction ^ 1, direction)
        x = jnp.clip(x, 0, 9)

        ceiling = y < 0
        brick = jnp.where((y >= 1) & (y <= 3), bit(SIZE * (y - 1) + x), 0)
        on_brick = (state.bricks & brick) != 0
        breaks = on_brick & ~state.strike
        bottom = y == 9
        struck_above = bottom & (state.ball_x == paddle)
        struck_diagonally = bottom & ~struck_above & (x == paddle)
        missed = bottom & ~struck_above & ~struck_diagonally

        direction = jnp.where(ceiling | breaks | struck_above, direction ^ 3, direction)
        direction = jnp.where(struck_diagonally, direction ^ 2, direction)
        y = jnp.where(breaks | struck_above | struck_diagonally, state.ball_y, jnp.maximum(y, 0))
        bricks = jnp.where(breaks, state.bricks & ~brick, state.bricks)
        bricks = jnp.where(bottom & (bricks == 0), WALL, bricks)

        state = BreakoutState(
            paddle=paddle,
            ball_x=x,
            ball_y=y,
            direction=direction,
            last_x=state.ball_x,
            last_y=state.ball_y,
            bricks=bricks,
            strike=on_brick,
            last_action=action,
            time=state.time + 1,
        )
        return state, self.outcome(state, as_integer(breaks), missed)

    def observe(self, state: BreakoutState) -> Observation:
        row = jnp.arange(SIZE)
        bricks = jnp.where((row >= 1) & (row <= 3), state.bricks >> (SIZE * (row - 1)) & LINE, 0)
        lines = [
            on_line(as_integer(9), bit(state.paddle)),
            on_line(state.ball_y, bit(state.ball_x)),
            on_line(state.last_y, bit(state.last_x)),
            bricks,
        ]
        return board_channels(lines)
