"""Space Invaders: shoot the aliens that come down, sideways and ever faster, and dodge their shots.

Kenny Young, Tian Tian (2019), "MinAtar", arXiv 1903.03176.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from forage.core.ranges import Range, Ranges
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

ROW_9 = 1 << 9
FASTEST_WAVE = 6  # steps between two moves of a full wave, however often it came


class SpaceInvadersState(NamedTuple):
    player_x: Number
    aliens: Int[Array, "10"]  # one integer for each column, bit y is row y; so are the bullets
    friendly: Int[Array, "10"]
    enemy: Int[Array, "10"]
    right: Flag  # the aliens move to the right
    move_interval: Number  # most steps between two moves of the aliens
    move_timer: Number
    alien_shot_timer: Number
    shot_timer: Number
    ramp_index: Number
    last_action: Number
    time: Number


class SpaceInvadersDraws(NamedTuple):
    repeat: Flag  # sticky action


def wave() -> Int[Array, "10"]:
    """Return the aliens of a new wave: rows 0 to 3, columns 2 to 7."""
    column = jnp.arange(SIZE)
    return jnp.where((column >= 2) & (column < 8), as_integer(0b1111), 0)


class SpaceInvaders(MinAtar):
    """A reward of 1 for each alien shot; the episode ends once an alien or its shot hits the cannon.

    The fewer aliens are left, the faster they move; each cleared wave is followed by a slightly faster one.
    """

    ranges: ClassVar[Ranges] = {
        "shot_cool_down": Range(1),
        "alien_move_interval": Range(1),
        "alien_shot_interval": Range(1),
    }

    ramping: bool = True
    shot_cool_down: int = 5
    """Steps between two shots of the cannon."""
    alien_move_interval: int = 12
    """Most steps between two moves of the aliens, in the first wave."""
    alien_shot_interval: int = 10
    """Steps between two shots of the aliens."""

    channels = ("cannon", "alien", "alien_left", "alien_right", "friendly_bullet", "enemy_bullet")
    minimal_action_set = "nlrf"
    palette = ((94, 196, 255), (126, 214, 120), (60, 120, 92), (168, 140, 60), (255, 255, 255), (244, 92, 110))

    def reset(self, key: Key[Array, ""]) -> tuple[SpaceInvadersState, Observation]:
        state = SpaceInvadersState(
            player_x=as_integer(5),
            aliens=wave(),
            friendly=jnp.zeros(SIZE, jnp.int32),
            enemy=jnp.zeros(SIZE, jnp.int32),
            right=jnp.asarray(False),
            move_interval=as_integer(self.alien_move_interval),
            move_timer=as_integer(self.alien_move_interval),
            alien_shot_timer=as_integer(self.alien_shot_interval),
            shot_timer=as_integer(0),
            ramp_index=as_integer(0),
            last_action=as_integer(0),
            time=as_integer(0),
        )
        return state, self.observe(state)

    def draw(self, key: Key[Array, ""]) -> SpaceInvadersDraws:
        return SpaceInvadersDraws(repeat=jax.random.bernoulli(key, self.sticky_action_prob))

    def advance(
        self, state: SpaceInvadersState, action: Number, draws: SpaceInvadersDraws
    ) -> tuple[SpaceInvadersState, Step]:
        action = jnp.where(draws.repeat, state.last_action, as_integer(action))
        column = jnp.arange(SIZE)

        fires = self.is_pressed(action, "f") & (state.shot_timer == 0)
        friendly = (state.friendly | on_line(state.player_x, jnp.where(fires, ROW_9, 0))) >> 1
        shot_timer = jnp.where(fires, self.shot_cool_down, state.shot_timer)
        step_x = as_integer(self.is_pressed(action, "r")) - as_integer(self.is_pressed(action, "l"))
        player_x = jnp.clip(state.player_x + step_x, 0, 9)
        cannon = on_line(player_x, as_integer(ROW_9))

        enemy = state.enemy << 1 & LINE
        hit = (enemy | state.aliens) & cannon

        # The aliens move: sideways, or down and about at an edge.
        moves = state.move_timer == 0
        count = jnp.sum(jax.lax.population_count(state.aliens))
        move_timer = jnp.where(moves, jnp.minimum(count, state.move_interval), state.move_timer)
        turns = jnp.where(state.right, state.aliens[9], state.aliens[0]) != 0
        landed = moves & turns & jnp.any(state.aliens & ROW_9 != 0)
        lower = (state.aliens << 1 | state.aliens >> 9) & LINE
        beside = jnp.where(state.right, jnp.roll(state.aliens, 1), jnp.roll(state.aliens, -1))
        aliens = jnp.where(moves, jnp.where(turns, lower, beside), state.aliens)
        right = state.right ^ (moves & turns)
        terminated = landed | jnp.any((hit | (aliens & cannon)) != 0)

        # The lowest alien of the nearest column shoots, of two equally near the left one. There is always an alien.
        shoots = state.alien_shot_timer == 0
        alien_shot_timer = jnp.where(shoots, self.alien_shot_interval, state.alien_shot_timer)
        distance = jnp.where(aliens != 0, 2 * jnp.abs(column - player_x) + (column > player_x), 2 * SIZE)
        nearest = shoots & (distance == jnp.min(distance))
        enemy = jnp.where(nearest, enemy | bit(31 - jax.lax.clz(aliens)), enemy)

        killed = aliens & friendly
        aliens, friendly = aliens & ~killed, friendly & ~killed
        cleared = jnp.all(aliens == 0)
        ramps = cleared & jnp.asarray(self.ramping) & (state.move_interval > FASTEST_WAVE)

        state = SpaceInvadersState(
            player_x=player_x,
            aliens=jnp.where(cleared, wave(), aliens),
            friendly=friendly,
            enemy=enemy,
            right=right,
            move_interval=state.move_interval - ramps,
            move_timer=move_timer - 1,
            alien_shot_timer=alien_shot_timer - 1,
            shot_timer=jnp.maximum(shot_timer - 1, 0),
            ramp_index=state.ramp_index + ramps,
            last_action=action,
            time=state.time + 1,
        )
        return state, self.outcome(state, jnp.sum(jax.lax.population_count(killed)), terminated)

    def observe(self, state: SpaceInvadersState) -> Observation:
        columns = [
            on_line(state.player_x, as_integer(ROW_9)),
            state.aliens,
            jnp.where(state.right, 0, state.aliens),
            jnp.where(state.right, state.aliens, 0),
            state.friendly,
            state.enemy,
        ]
        return jnp.swapaxes(board_channels(columns), 0, 1)
