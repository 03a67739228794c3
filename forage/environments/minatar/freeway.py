"""Freeway: cross eight lanes of traffic as often as the time allows.

Kenny Young, Tian Tian (2019), "MinAtar", arXiv 1903.03176.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, UInt32

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Step
from forage.environments.minatar.common import (
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

CARS = 8
COLUMN = 4  # of the chicken
SPEEDS = 5


class FreewayState(NamedTuple):
    player_y: Number
    move_timer: Number  # steps until the chicken can move again
    car_x: Int[Array, "8"]  # car i drives in row i + 1
    car_timer: Int[Array, "8"]
    car_interval: Int[Array, "8"]  # steps between two moves, less one
    car_right: Bool[Array, "8"]
    last_action: Number
    time: Number


class FreewayDraws(NamedTuple):
    repeat: Flag  # sticky action
    interval: Int[Array, "8"]  # what the cars change to when the chicken arrives
    right: Bool[Array, "8"]


class Freeway(MinAtar):
    """A reward of 1 for each crossing, followed by new car speeds; a car sends the chicken back to its start.

    The episode terminates after `time_limit + 1` steps: the limit is part of the game, so `terminated` reports it.
    Difficulty does not ramp.
    """

    ranges: ClassVar[Ranges] = {"player_interval": Range(0), "time_limit": Range(0)}

    player_interval: int = 3
    """Steps between two moves of the chicken."""
    time_limit: int = equinox.field(static=True, default=2500)

    channels = ("chicken", "car", "speed1", "speed2", "speed3", "speed4", "speed5")
    minimal_action_set = "nud"
    palette = (
        (255, 236, 150),
        (232, 84, 96),
        (226, 133, 64),
        (196, 164, 72),
        (112, 168, 96),
        (72, 142, 164),
        (102, 108, 176),
    )

    def __check_init__(self) -> None:
        if self.time_limit < 0:
            raise ForageError(f"time_limit is {self.time_limit}; give 0 or more (2500 in the published game).")

    @property
    def horizon(self) -> int:
        return self.time_limit + 1 if self.max_steps is None else min(self.time_limit + 1, self.max_steps)

    def cars(self, words: UInt32[Array, "2"]) -> tuple[Int[Array, "8"], Bool[Array, "8"]]:
        """Intervals 1 to 5 and directions, all ten pairs equally likely: a decimal digit for each car.

        Four digits from each random word; that 2 ** 32 is no multiple of 10 ** 4 shifts no chance by more than 3e-6.
        """
        place = jnp.array([1, 10, 100, 1000], jnp.uint32)
        digit = (words[:, None] // place % (2 * SPEEDS)).reshape(CARS).astype(jnp.int32)
        return digit % SPEEDS + 1, digit < SPEEDS

    def reset(self, key: Key[Array, ""]) -> tuple[FreewayState, Observation]:
        interval, right = self.cars(jax.random.bits(key, (2,)))
        state = FreewayState(
            player_y=as_integer(9),
            move_timer=as_integer(self.player_interval),
            car_x=jnp.zeros(CARS, jnp.int32),
            car_timer=interval,
            car_interval=interval,
            car_right=right,
            last_action=as_integer(0),
            time=as_integer(0),
        )
        return state, self.observe(state)

    def draw(self, key: Key[Array, ""]) -> FreewayDraws:
        words = jax.random.bits(key, (3,))
        interval, right = self.cars(words[1:])
        return FreewayDraws((words[0] >> 8) / 2**24 < self.sticky_action_prob, interval, right)

    def advance(self, state: FreewayState, action: Number, draws: FreewayDraws) -> tuple[FreewayState, Step]:
        action = jnp.where(draws.repeat, state.last_action, as_integer(action))
        up, down = self.is_pressed(action, "u"), self.is_pressed(action, "d")
        moves = (up | down) & (state.move_timer == 0)
        player_y = jnp.where(moves, jnp.clip(state.player_y + as_integer(down) - as_integer(up), 0, 9), state.player_y)
        move_timer = jnp.where(moves, self.player_interval, state.move_timer)

        arrives = player_y == 0
        player_y = jnp.where(arrives, 9, player_y)
        interval = jnp.where(arrives, draws.interval, state.car_interval)
        right = jnp.where(arrives, draws.right, state.car_right)
        timer = jnp.where(arrives, draws.interval, state.car_timer)

        # A car hits the chicken where it stands and where it then moves to. Only one lane can: row 9 has no cars.
        in_lane = jnp.arange(1, CARS + 1) == player_y
        drives = timer == 0
        ahead = state.car_x + jnp.where(right, 1, -1)
        ahead = jnp.where(ahead < 0, 9, jnp.where(ahead > 9, 0, ahead))
        car_x = jnp.where(drives, ahead, state.car_x)
        hit = jnp.any(in_lane & ((state.car_x == COLUMN) | (car_x == COLUMN)))
        player_y = jnp.where(hit, 9, player_y)

        state = FreewayState(
            player_y=player_y,
            move_timer=jnp.maximum(move_timer - 1, 0),
            car_x=car_x,
            car_timer=jnp.where(drives, interval, timer - 1),
            car_interval=interval,
            car_right=right,
            last_action=action,
            time=state.time + 1,
        )
        return state, self.outcome(state, as_integer(arrives), state.time > self.time_limit)

    def observe(self, state: FreewayState) -> Observation:
        behind = state.car_x - jnp.where(state.car_right, 1, -1)
        behind = jnp.where(behind < 0, 9, jnp.where(behind > 9, 0, behind))
        trails = [jnp.where(state.car_interval == speed, bit(behind), 0) for speed in range(1, SPEEDS + 1)]
        traffic = [jnp.pad(lane, (1, SIZE - CARS - 1)) for lane in (bit(state.car_x), *trails)]
        return board_channels([on_line(state.player_y, as_integer(1 << COLUMN)), *traffic])
