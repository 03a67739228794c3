"""Seaquest: a submarine shoots fish and enemy submarines, picks up divers and carries them to the surface for air.

Kenny Young, Tian Tian (2019), "MinAtar", arXiv 1903.03176.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Step
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
    uniform_index,
)

# The capacities below hold whatever the package's lists can: a place is used again only when its last holder is gone.
# A bullet leaves within 10 steps and one is fired every 5: two. A diver leaves within 10 * 6 steps and one comes every
# 30: two. An enemy leaves within 10 * (move interval + 1) steps: when one comes in every single step the move interval
# has long been 2, so 30 at most; before, they come at least 14 steps apart. `__check_init__` refuses other constants
# that would overflow.
BULLETS = 2
DIVERS = 2
ENEMIES = 32

CREW = 6  # most divers on board
FASTEST_MOVE = 2  # the move interval that difficulty stops at


class Bullets(NamedTuple):
    present: Bool[Array, "2"]  # newest first
    x: Int[Array, "2"]
    y: Int[Array, "2"]
    right: Bool[Array, "2"]


class Divers(NamedTuple):
    present: Bool[Array, "2"]  # newest first
    x: Int[Array, "2"]
    y: Int[Array, "2"]
    right: Bool[Array, "2"]
    timer: Int[Array, "2"]


class Enemies(NamedTuple):
    """A ring: place `next` is written next, so places from there on are in order of age, oldest first."""

    present: Bool[Array, "32"]
    x: Int[Array, "32"]
    y: Int[Array, "32"]
    right: Bool[Array, "32"]  # the same for all enemies in a row
    submarine: Bool[Array, "32"]  # otherwise a fish, which does not shoot
    timer: Int[Array, "32"]
    shot_timer: Int[Array, "32"]


class SeaquestState(NamedTuple):
    player_x: Number
    player_y: Number
    faces_right: Flag
    oxygen: Number
    crew: Number  # divers on board; falls below 0 as in the package, where bringing up all six leaves -1
    surfaced: Flag
    bullets: Bullets
    divers: Divers
    enemies: Enemies
    next: Number
    shots_left: Int[Array, "10"]  # enemy bullets that fly left: one integer for each row, bit x is column x
    shots_right: Int[Array, "10"]
    spawn_timer: Number
    spawn_interval: Number
    diver_timer: Number
    move_interval: Number
    shot_timer: Number
    ramp_index: Number
    last_action: Number
    time: Number


class SeaquestDraws(NamedTuple):
    repeat: Flag  # sticky action
    enemy_right: Flag  # the new enemy comes from the left and moves right
    enemy_submarine: Flag
    enemy_y: Number
    diver_right: Flag
    diver_y: Number


class Seaquest(MinAtar):
    """A reward of 1 for each enemy shot, and of up to 10, by the oxygen left, for bringing up six divers.

    The episode ends when an enemy or its bullet hits the submarine, when the oxygen is used up, and when the submarine
    surfaces without a diver. Each time it surfaces, enemies appear, and at every second time move, one step sooner.
    """

    ranges: ClassVar[Ranges] = {
        "spawn_interval": Range(1),
        "move_interval": Range(0),
        "shot_cool_down": Range(1),
        "enemy_shot_interval": Range(0),
        "diver_spawn_interval": Range(1),
        "diver_move_interval": Range(0),
        "max_oxygen": Range(1),
    }

    ramping: bool = True
    spawn_interval: int = 20
    """Steps between two new enemies, at first."""
    move_interval: int = 5
    """An enemy moves every `move_interval + 1` steps, at first."""
    shot_cool_down: int = 5
    """Steps between two shots of the player."""
    enemy_shot_interval: int = 10
    """An enemy submarine shoots every `enemy_shot_interval + 1` steps."""
    diver_spawn_interval: int = 30
    diver_move_interval: int = 5
    """A diver moves every `diver_move_interval + 1` steps."""
    max_oxygen: int = 200

    channels = (
        "sub_front",
        "sub_back",
        "friendly_bullet",
        "trail",
        "enemy_bullet",
        "enemy_fish",
        "enemy_sub",
        "oxygen_gauge",
        "diver_gauge",
        "diver",
    )
    minimal_action_set = "nlurdf"
    palette = (
        (94, 196, 255),
        (46, 112, 176),
        (255, 255, 255),
        (88, 94, 122),
        (255, 120, 190),
        (250, 160, 70),
        (226, 74, 86),
        (120, 214, 196),
        (196, 150, 244),
        (250, 224, 100),
    )

    def __check_init__(self) -> None:
        if isinstance(self.shot_cool_down, int) and self.shot_cool_down * BULLETS < SIZE:
            raise ForageError(f"shot_cool_down is {self.shot_cool_down}; give at least {SIZE // BULLETS}.")
        diver = (self.diver_spawn_interval, self.diver_move_interval)
        if all(isinstance(n, int) for n in diver) and SIZE * (diver[1] + 1) > DIVERS * diver[0]:
            raise ForageError(
                f"Divers who come every {diver[0]} steps and move every {diver[1] + 1} crowd the board; "
                f"give a diver_spawn_interval of at least {-(-SIZE * (diver[1] + 1) // DIVERS)}."
            )
        spawn, move = self.spawn_interval, self.move_interval
        if not (isinstance(spawn, int) and isinstance(move, int) and isinstance(self.ramping, bool)):
            return
        index = 0
        while True:
            if SIZE * (move + 1) > ENEMIES * spawn:
                raise ForageError(
                    f"Enemies who come every {spawn} steps and move every {move + 1} crowd the board; "
                    "give a longer spawn_interval or a shorter move_interval."
                )
            if not self.ramping or (spawn <= 1 and move <= FASTEST_MOVE):
                return
            move -= move > FASTEST_MOVE and index % 2 == 1
            spawn -= spawn > 1
            index += 1

    def reset(self, key: Key[Array, ""]) -> tuple[SeaquestState, Observation]:
        def absent(size: int) -> Bool[Array, " size"]:
            return jnp.zeros(size, bool)

        def zeros(size: int) -> Int[Array, " size"]:
            return jnp.zeros(size, jnp.int32)

        state = SeaquestState(
            player_x=as_integer(5),
            player_y=as_integer(0),
            faces_right=jnp.asarray(False),
            oxygen=as_integer(self.max_oxygen),
            crew=as_integer(0),
            surfaced=jnp.asarray(True),
            bullets=Bullets(absent(BULLETS), zeros(BULLETS), zeros(BULLETS), absent(BULLETS)),
            divers=Divers(absent(DIVERS), zeros(DIVERS), zeros(DIVERS), absent(DIVERS), zeros(DIVERS)),
            enemies=Enemies(
                present=absent(ENEMIES),
                x=zeros(ENEMIES),
                y=zeros(ENEMIES),
                right=absent(ENEMIES),
                submarine=absent(ENEMIES),
                timer=zeros(ENEMIES),
                shot_timer=zeros(ENEMIES),
            ),
            next=as_integer(0),
            shots_left=zeros(SIZE),
            shots_right=zeros(SIZE),
            spawn_timer=as_integer(self.spawn_interval),
            spawn_interval=as_integer(self.spawn_interval),
            diver_timer=as_integer(self.diver_spawn_interval),
            move_interval=as_integer(self.move_interval),
            shot_timer=as_integer(0),
            ramp_index=as_integer(0),
            last_action=as_integer(0),
            time=as_integer(0),
        )
        return state, self.observe(state)

    def draw(self, key: Key[Array, ""]) -> SeaquestDraws:
        uniform = jax.random.uniform(key, (6,))
        return SeaquestDraws(
            repeat=uniform[0] < self.sticky_action_prob,
            enemy_right=uniform[1] < 1 / 2,
            enemy_submarine=uniform[2] < 1 / 3,
            enemy_y=1 + uniform_index(uniform[3], 8),
            diver_right=uniform[4] < 1 / 2,
            diver_y=1 + uniform_index(uniform[5], 8),
        )

    def advance(self, state: SeaquestState, action: Number, draws: SeaquestDraws) -> tuple[SeaquestState, Step]:
        action = jnp.where(draws.repeat, state.last_action, as_integer(action))
        enemies, place, spawn_timer = self._spawn_enemy(state, draws)
        divers, diver_timer = self._spawn_diver(state, draws)

        fires = self.is_pressed(action, "f") & (state.shot_timer == 0)
        shot_timer = jnp.where(fires, self.shot_cool_down, state.shot_timer)
        newest = Bullets(fires, state.player_x, state.player_y, state.faces_right)
        bullets = jax.tree.map(lambda one, all: jnp.where(fires, _push(one, all), all), newest, state.bullets)
        left, right = self.is_pressed(action, "l"), self.is_pressed(action, "r")
        up, down = self.is_pressed(action, "u"), self.is_pressed(action, "d")
        x = jnp.clip(state.player_x + as_integer(right) - as_integer(left), 0, 9)
        y = jnp.clip(state.player_y + as_integer(down) - as_integer(up), 0, 8)
        faces_right = (state.faces_right | right) & ~left

        bullets, enemies, shot_down = _fly(bullets, enemies, place)
        divers, crew = self._swim(divers, state.crew, x, y)
        bullets, enemies, lines, run_down, rammed = self._attack(bullets, enemies, state.move_interval, x, y)
        shots_left, shots_right, shot = _shoot(state, lines, on_line(y, bit(x)))
        terminated = rammed | shot | (state.oxygen <= 0)

        # Coming up: six divers all leave the board at once; then, as otherwise, the package still takes off one.
        under = y > 0
        comes_up = ~under & ~state.surfaced
        terminated = terminated | (comes_up & (crew == 0))
        surfaces = comes_up & (crew != 0)
        rescue = surfaces & (crew == CREW)
        bonus = jnp.where(rescue, state.oxygen * 10 // self.max_oxygen, 0)
        oxygen = jnp.where(surfaces, self.max_oxygen, state.oxygen - under)
        crew = jnp.where(rescue, 0, crew) - surfaces
        can_ramp = (state.spawn_interval > 1) | (state.move_interval > FASTEST_MOVE)
        ramps = surfaces & jnp.asarray(self.ramping) & can_ramp
        faster = ramps & (state.move_interval > FASTEST_MOVE) & (state.ramp_index % 2 == 1)

        state = SeaquestState(
            player_x=x,
            player_y=y,
            faces_right=faces_right,
            oxygen=oxygen,
            crew=crew,
            surfaced=~under & (state.surfaced | surfaces),
            bullets=bullets,
            divers=divers,
            enemies=enemies,
            next=place,
            shots_left=shots_left,
            shots_right=shots_right,
            spawn_timer=jnp.maximum(spawn_timer - 1, 0),
            spawn_interval=state.spawn_interval - (ramps & (state.spawn_interval > 1)),
            diver_timer=jnp.maximum(diver_timer - 1, 0),
            move_interval=state.move_interval - faster,
            shot_timer=jnp.maximum(shot_timer - 1, 0),
            ramp_index=state.ramp_index + ramps,
            last_action=action,
            time=state.time + 1,
        )
        return state, self.outcome(state, shot_down + run_down + bonus, terminated)

    def _spawn_enemy(self, state: SeaquestState, draws: SeaquestDraws) -> tuple[Enemies, Number, Number]:
        """Spawn an enemy if due, unless enemies move the other way in its row. Return enemies, next slot and timer."""
        due = state.spawn_timer == 0
        old = state.enemies
        blocked = jnp.any(old.present & (old.y == draws.enemy_y) & (old.right != draws.enemy_right))
        spawns = due & ~blocked
        new = Enemies(
            present=jnp.asarray(True),
            x=jnp.where(draws.enemy_right, 0, 9),
            y=draws.enemy_y,
            right=draws.enemy_right,
            submarine=draws.enemy_submarine,
            timer=state.move_interval,
            shot_timer=as_integer(self.enemy_shot_interval),
        )
        here = spawns & (jnp.arange(ENEMIES) == state.next)
        enemies = jax.tree.map(lambda one, all: jnp.where(here, one, all), new, old)
        return enemies, (state.next + spawns) % ENEMIES, jnp.where(due, state.spawn_interval, state.spawn_timer)

    def _spawn_diver(self, state: SeaquestState, draws: SeaquestDraws) -> tuple[Divers, Number]:
        """Spawn a diver if due. Return the divers and the timer."""
        due = state.diver_timer == 0
        x = jnp.where(draws.diver_right, 0, 9)
        new = Divers(due, x, draws.diver_y, draws.diver_right, as_integer(self.diver_move_interval))
        divers = jax.tree.map(lambda one, all: jnp.where(due, _push(one, all), all), new, state.divers)
        return divers, jnp.where(due, self.diver_spawn_interval, state.diver_timer)

    def _swim(self, divers: Divers, crew: Number, x: Number, y: Number) -> tuple[Divers, Number]:
        """Move the divers. Those at the player, before or after the move, come on board as long as there is room."""
        moves = divers.timer == 0
        moved_x = divers.x + jnp.where(moves, jnp.where(divers.right, 1, -1), 0)
        stays_in = (moved_x >= 0) & (moved_x <= 9)
        meets = divers.present & (divers.y == y) & ((divers.x == x) | (moved_x == x))
        # The newest comes on board first: the older ones must find room behind it.
        boards = []
        for diver in range(DIVERS):
            boards.append(meets[diver] & (crew < CREW))
            crew = crew + boards[diver]
        timer = jnp.where(moves, self.diver_move_interval, divers.timer - 1)
        present = divers.present & stays_in & ~jnp.stack(boards)
        return Divers(present, moved_x, divers.y, divers.right, timer), crew

    def _attack(
        self, bullets: Bullets, enemies: Enemies, move_interval: Number, x: Number, y: Number
    ) -> tuple[Bullets, Enemies, Int[Array, "row"], Number, Flag]:
        """Move the enemies, remove those that run into a bullet, and let submarines shoot.

        Also return the number of enemies shot, whether one met the player, and the starts of new shots: for each row, a
        line, with bit `SIZE` set if they fly right.
        """
        present, right = enemies.present, enemies.right
        moves = present & (enemies.timer == 0)
        moved_x = enemies.x + jnp.where(moves, jnp.where(right, 1, -1), 0)
        in_row = enemies.y == y
        at_player = in_row & (moved_x == x)
        met = jnp.any(present & (at_player | (in_row & (enemies.x == x))))

        # Enemies arrive in a cell one at a time, having been spawned one at a time: no two share a bullet here.
        hits = (bullets.x[:, None] == moved_x) & (bullets.y[:, None] == enemies.y) & bullets.present[:, None]
        hits = hits & moves & ~at_player
        shot = jnp.any(hits, axis=0)
        bullets = bullets._replace(present=bullets.present & ~jnp.any(hits, axis=1))

        # Also a submarine that has just been shot or has just left gets its own shot off.
        shoots = present & enemies.submarine & (enemies.shot_timer == 0)
        stays_in = (moved_x >= 0) & (moved_x <= 9)
        word = jnp.where(shoots & stays_in, bit(moved_x) | jnp.where(right, 1 << SIZE, 0), 0)
        lines = _rows(word, enemies.y)
        enemies = enemies._replace(
            present=present & stays_in & ~shot,
            x=moved_x,
            timer=jnp.where(moves, move_interval, enemies.timer - 1),
            shot_timer=jnp.where(shoots, self.enemy_shot_interval, enemies.shot_timer - 1),
        )
        return bullets, enemies, lines, jnp.sum(shot), met

    def observe(self, state: SeaquestState) -> Observation:
        bullets, divers, enemies = state.bullets, state.divers, state.enemies
        facing = bit(state.player_x)
        back = jnp.where(state.faces_right, facing >> 1, facing << 1 & LINE)
        shots_out = _rows(jnp.where(bullets.present, bit(bullets.x), 0), bullets.y)
        swimmer = jnp.where(divers.present, bit(divers.x), 0)
        wake = jnp.where(divers.right, swimmer >> 1, swimmer << 1 & LINE)
        swimmers = _rows(swimmer | wake << SIZE, divers.y)
        # Fish in the low bits, submarines above them, then the direction, which a row's enemies share.
        kind = jnp.where(enemies.submarine, bit(enemies.x) << SIZE, bit(enemies.x))
        hostile = _rows(jnp.where(enemies.present, kind | jnp.where(enemies.right, 1 << 2 * SIZE, 0), 0), enemies.y)
        fish, submarines = hostile & LINE, hostile >> SIZE & LINE
        either = fish | submarines
        trail = jnp.where(hostile >> 2 * SIZE != 0, either >> 1, either << 1 & LINE) | swimmers >> SIZE
        oxygen = bit(jnp.maximum(state.oxygen, 0) * 10 // self.max_oxygen) - 1
        crew = jnp.maximum(state.crew, 0)
        lines = [
            on_line(state.player_y, facing),
            on_line(state.player_y, back),
            shots_out,
            trail,
            state.shots_left | state.shots_right,
            fish,
            submarines,
            on_line(as_integer(9), oxygen),
            on_line(as_integer(9), (bit(crew) - 1) << (9 - crew)),
            swimmers & LINE,
        ]
        return board_channels(lines)


def _push(one: Array, all: Array) -> Array:
    """`one` before all others but the last."""
    return jnp.concatenate([one[None].astype(all.dtype), all[:-1]])


def _rows(word: Int[Array, " entity"], y: Int[Array, " entity"]) -> Int[Array, "row"]:
    """For each row, the words of all entities in it, joined by or."""
    return jax.lax.reduce_or(jnp.where(jnp.arange(SIZE)[:, None] == y, word, 0), axes=(1,))


def _fly(bullets: Bullets, enemies: Enemies, place: Number) -> tuple[Bullets, Enemies, Number]:
    """Move the player's bullets; each removes one enemy: fish before submarines, the oldest first. Also count them."""
    x = bullets.x + jnp.where(bullets.right, 1, -1)
    flying = bullets.present & (x >= 0) & (x <= 9)
    meets = (x[:, None] == enemies.x) & (bullets.y[:, None] == enemies.y) & flying[:, None] & enemies.present
    age_order = (jnp.arange(ENEMIES) - place) % ENEMIES + jnp.where(enemies.submarine, ENEMIES, 0)
    order = jnp.where(meets, age_order, 2 * ENEMIES)
    first = jnp.min(order, axis=1)
    struck = first < 2 * ENEMIES
    hit = jnp.any(meets & (order == first[:, None]), axis=0)
    bullets = bullets._replace(present=flying & ~struck, x=x)
    return bullets, enemies._replace(present=enemies.present & ~hit), jnp.sum(struck)


def _shoot(
    state: SeaquestState, lines: Int[Array, "row"], player: Int[Array, "row"]
) -> tuple[Int[Array, "row"], Int[Array, "row"], Flag]:
    """Move the enemies' bullets, old and new. Also return whether one hit the player, before or after its move."""
    rightwards = lines >> SIZE != 0
    left = state.shots_left | jnp.where(rightwards, 0, lines)
    right = state.shots_right | jnp.where(rightwards, lines & LINE, 0)
    moved_left, moved_right = left >> 1, right << 1 & LINE
    hit = jnp.any(((left | right | moved_left | moved_right) & player) != 0)
    return moved_left, moved_right, hit
