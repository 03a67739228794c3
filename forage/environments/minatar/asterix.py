"""Asterix: collect the treasure and avoid the enemies that cross the board, ever faster.

Kenny Young, Tian Tian (2019), "MinAtar", arXiv 1903.03176.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import Step
from forage.environments.minatar.common import (
    LINE,
    Flag,
    MinAtar,
    Number,
    Observation,
    as_integer,
    bit,
    board_channels,
    on_line,
    uniform_index,
)

SLOTS = 8


class AsterixState(NamedTuple):
    player_x: Number
    player_y: Number
    present: Bool[Array, "8"]  # slot i holds the one entity that can be in row i + 1
    x: Int[Array, "8"]
    right: Bool[Array, "8"]  # moves to the right
    gold: Bool[Array, "8"]  # treasure; otherwise an enemy
    spawn_timer: Number
    spawn_interval: Number
    move_timer: Number
    move_interval: Number
    ramp_timer: Number
    ramp_index: Number
    last_action: Number
    time: Number


class AsterixDraws(NamedTuple):
    repeat: Flag  # sticky action
    right: Flag  # the new entity comes from the left and moves right
    gold: Flag
    slot: Float[Array, ""]  # which of the free slots it takes: how far through them, in [0, 1)


class Asterix(MinAtar):
    """A reward of 1 for each treasure; the episode ends with the first touch of an enemy.

    Every `ramp_interval + 2` steps the game becomes faster: entities appear one step sooner, and every second time they
    also move one step sooner.
    """

    ranges: ClassVar[Ranges] = {"spawn_interval": Range(1), "move_interval": Range(1), "ramp_interval": Range(1)}

    ramping: bool = True
    spawn_interval: int = 10
    """Steps between two new entities, at first."""
    move_interval: int = 5
    """Steps between two moves of the entities, at first."""
    ramp_interval: int = 100

    channels = ("player", "enemy", "trail", "gold")
    minimal_action_set = "nlurd"
    palette = ((94, 196, 255), (232, 84, 96), (104, 108, 134), (250, 204, 80))

    def reset(self, key: Key[Array, ""]) -> tuple[AsterixState, Observation]:
        state = AsterixState(
            player_x=as_integer(5),
            player_y=as_integer(5),
            present=jnp.zeros(SLOTS, bool),
            x=jnp.zeros(SLOTS, jnp.int32),
            right=jnp.zeros(SLOTS, bool),
            gold=jnp.zeros(SLOTS, bool),
            spawn_timer=as_integer(self.spawn_interval),
            spawn_interval=as_integer(self.spawn_interval),
            move_timer=as_integer(self.move_interval),
            move_interval=as_integer(self.move_interval),
            ramp_timer=as_integer(self.ramp_interval),
            ramp_index=as_integer(0),
            last_action=as_integer(0),
            time=as_integer(0),
        )
        return state, self.observe(state)

    def draw(self, key: Key[Array, ""]) -> AsterixDraws:
        uniform = jax.random.uniform(key, (4,))
        return AsterixDraws(
            repeat=uniform[0] < self.sticky_action_prob,
            right=uniform[1] < 1 / 2,
            gold=uniform[2] < 1 / 3,
            slot=uniform[3],
        )

    def advance(self, state: AsterixState, action: Number, draws: AsterixDraws) -> tuple[AsterixState, Step]:
        action = jnp.where(draws.repeat, state.last_action, as_integer(action))

        # A new entity in a free slot, none if there is no free slot.
        spawns = state.spawn_timer == 0
        spawn_timer = jnp.where(spawns, state.spawn_interval, state.spawn_timer)
        slot = jnp.arange(SLOTS)
        free = ~state.present
        free_before = jnp.sum(free & (slot < slot[:, None]), axis=1)
        new = spawns & free & (free_before == uniform_index(draws.slot, jnp.sum(free)))
        present = state.present | new
        x = jnp.where(new, jnp.where(draws.right, 0, 9), state.x)
        right = jnp.where(new, draws.right, state.right)
        gold = jnp.where(new, draws.gold, state.gold)

        step_x = as_integer(self.is_pressed(action, "r")) - as_integer(self.is_pressed(action, "l"))
        step_y = as_integer(self.is_pressed(action, "d")) - as_integer(self.is_pressed(action, "u"))
        player_x = jnp.clip(state.player_x + step_x, 0, 9)
        player_y = jnp.clip(state.player_y + step_y, 1, 8)

        # Contact counts where the entities stand and, when they move, again where they then are.
        in_row = slot == player_y - 1
        touched = present & in_row & (x == player_x)
        collected, terminated = touched & gold, touched & ~gold
        moves = state.move_timer == 0
        x = jnp.where(moves, x + jnp.where(right, 1, -1), x)
        present = present & ~collected & (x >= 0) & (x <= 9)
        touched = moves & present & in_row & (x == player_x)
        collected, terminated = collected | (touched & gold), jnp.any(terminated | (touched & ~gold))
        present = present & ~collected

        move_timer = jnp.where(moves, state.move_interval, state.move_timer) - 1
        spawn_timer = spawn_timer - 1
        can_ramp = jnp.asarray(self.ramping) & ((state.spawn_interval > 1) | (state.move_interval > 1))
        ramps = can_ramp & (state.ramp_timer < 0)
        faster = ramps & (state.move_interval > 1) & (state.ramp_index % 2 == 1)

        state = AsterixState(
            player_x=player_x,
            player_y=player_y,
            present=present,
            x=x,
            right=right,
            gold=gold,
            spawn_timer=spawn_timer,
            spawn_interval=state.spawn_interval - (ramps & (state.spawn_interval > 1)),
            move_timer=move_timer,
            move_interval=state.move_interval - faster,
            ramp_timer=jnp.where(ramps, self.ramp_interval, state.ramp_timer - can_ramp),
            ramp_index=state.ramp_index + ramps,
            last_action=action,
            time=state.time + 1,
        )
        return state, self.outcome(state, jnp.sum(collected), terminated)

    def observe(self, state: AsterixState) -> Observation:
        entity = jnp.where(state.present, bit(state.x), 0)
        behind = jnp.where(state.right, entity >> 1, entity << 1 & LINE)
        enemy, gold = jnp.where(state.gold, 0, entity), jnp.where(state.gold, entity, 0)
        enemy, trail, gold = (jnp.pad(lines, 1) for lines in (enemy, behind, gold))
        return board_channels([on_line(state.player_y, bit(state.player_x)), enemy, trail, gold])
