"""Levels of the grid worlds as data: played, batched, changed, kept, checked and solved."""

from __future__ import annotations

from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grid_reference import count, draw, one

from forage.core import prng
from forage.core.ports import Tasks
from forage.core.types import ForageError
from forage.environments import make
from forage.environments.grid.cells import (
    BALL,
    BOX,
    EMPTY,
    GOAL,
    GOAL_CELL,
    GREEN,
    GREY,
    HOLDS,
    KEY,
    LOCKED_DOOR,
    RED,
    WALL,
    WALL_CELL,
    cell,
)
from forage.environments.grid.core import GridWorld, Level, initial_state
from forage.environments.grid.doors import DoorKey, GoToDoor
from forage.environments.grid.dynamic_obstacles import DynamicObstacles
from forage.environments.grid.empty import Empty
from forage.environments.grid.levels import check_level, load_levels, mutate, save_levels, with_level
from forage.environments.grid.maze import Maze, draw_walls
from forage.environments.grid.memory import Memory
from forage.environments.grid.obstructed_maze import ObstructedMaze
from forage.environments.grid.solve import solve
from forage.environments.grid.unlock import Unlock, UnlockPickup
from forage.environments.wrappers import with_fields

pytestmark = pytest.mark.thorough

NUMBER = 256


def test_a_given_level_is_played() -> None:
    environment = DoorKey(6)
    level = one(draw(environment, 3), 2)
    fixed = with_level(environment, level)
    for seed in range(3):
        state, observation = fixed.reset(prng.key(seed))
        jax.tree.map(np.testing.assert_array_equal, state, initial_state(level))
    np.testing.assert_array_equal(observation, environment.observation(initial_state(level)))
    assert DoorKey(6, level=level).level is level


def test_a_batch_of_levels_is_one_vmap() -> None:
    levels = draw(DoorKey(6), 20)

    def begin(level: Level) -> Any:
        return with_level(DoorKey(6), level).reset(prng.key(0))[0]

    states = jax.vmap(begin)(levels)
    np.testing.assert_array_equal(states.grid, levels.grid)
    stacked = with_level(DoorKey(6), levels)  # the environment itself as a batch
    axes = jax.tree.map(lambda leaf: 0 if jnp.ndim(leaf) else None, stacked)
    states = jax.vmap(lambda environment: environment.reset(prng.key(0))[0], (axes,))(stacked)
    np.testing.assert_array_equal(states.x, levels.x)


class Replay(Tasks):
    """Levels of a list, drawn evenly: the simplest curriculum."""

    levels: Level

    def next(self, state, environment, key):
        chosen = jax.random.randint(key, (), 0, self.levels.x.shape[0])
        task = jax.tree.map(lambda _: None, environment)
        return equinox.tree_at(
            lambda task: task.level, task, one(self.levels, chosen), is_leaf=lambda leaf: leaf is None
        )


def test_levels_are_tasks() -> None:
    levels = draw(DoorKey(5), 4, seed=3)
    environment, tasks = with_level(DoorKey(5), one(levels, 0)), Replay(levels)

    def begin(key):
        return equinox.combine(tasks.next((), environment, key), environment).reset(key)[0]

    grids = jax.jit(jax.vmap(begin))(jax.random.split(prng.key(0), 64)).grid
    assert {grid.tobytes() for grid in np.asarray(grids)} == {grid.tobytes() for grid in levels.grid}


@pytest.mark.parametrize("name", ["DoorKey-8x8", "KeyCorridor-S4R3", "ObstructedMaze-1Dlhb", "GoToDoor-8x8"])
def test_plans_succeed(name: str) -> None:
    environment = make(f"grid:{name}")
    levels = draw(environment, 12)
    plans = [solve(environment, one(levels, number)) for number in range(12)]
    longest = max(len(plan) for plan in plans if plan)
    actions = np.array([plan + [0] * (longest - len(plan)) for plan in plans if plan])
    states = jax.vmap(initial_state)(levels)

    def play(state, actions):
        return jax.lax.scan(lambda state, action: environment.advance(state, action), state, actions)[1]

    steps = jax.jit(jax.vmap(play))(states, actions)
    for number, plan in enumerate(plans):
        assert plan and not steps.terminated[number][: len(plan) - 1].any()
        assert steps.reward[number][len(plan) - 1] > 0 and steps.terminated[number][len(plan) - 1]


def test_mutations_keep_a_level_in_bounds() -> None:
    levels = draw(make("grid:DynamicObstacles-16x16"), NUMBER)
    changed = jax.device_get(
        jax.jit(jax.vmap(lambda level, key: mutate(level, key, 8)))(levels, jax.random.split(prng.key(5), NUMBER))
    )
    assert (changed.grid[:, [0, -1]] == WALL_CELL).all() and (changed.grid[:, :, [0, -1]] == WALL_CELL).all()
    assert (changed.grid[np.arange(NUMBER), changed.y, changed.x] == EMPTY).all()
    for kind in (GOAL, BALL):
        np.testing.assert_array_equal(count(changed, kind), count(levels, kind))
    balls = np.take_along_axis(changed.grid.reshape(NUMBER, -1), changed.places, 1)
    assert (balls & 15 == BALL).all()
    moved = (changed.x != levels.x) | (changed.y != levels.y)
    assert moved.mean() > 0.5 and (count(changed, WALL) != count(levels, WALL)).mean() > 0.5
    assert (changed.places != levels.places).any()
    untouched = jax.vmap(lambda level, key: mutate(level, key, 0))(levels, jax.random.split(prng.key(5), NUMBER))
    np.testing.assert_array_equal(untouched.grid, levels.grid)


def test_levels_are_saved_and_loaded(tmp_path) -> None:
    levels = draw(GoToDoor(6), 5)
    save_levels(tmp_path / "levels.npz", levels)
    loaded = load_levels(tmp_path / "levels.npz")
    for left, right in zip(loaded, levels, strict=True):
        np.testing.assert_array_equal(left, right)
        assert left.dtype == right.dtype
    with pytest.raises(ForageError, match="no file"):
        load_levels(tmp_path / "nothing.npz")
    (tmp_path / "other.npz").write_text("text")
    with pytest.raises(ForageError, match="not a file of levels"):
        load_levels(tmp_path / "other.npz")


def change(environment: GridWorld, column: int, row: int, content: int, **fields: Any) -> tuple[GridWorld, Level]:
    level = one(draw(environment, 1), 0)
    grid = np.array(level.grid)
    grid[row, column] = content
    return environment, level._replace(grid=grid, **{name: np.int32(value) for name, value in fields.items()})


def leave_out(environment: GridWorld, kind: int) -> tuple[GridWorld, Level]:
    level = one(draw(environment, 1), 0)
    return environment, level._replace(grid=np.where(level.grid & 15 == kind, EMPTY, level.grid).astype(np.uint8))


@pytest.mark.parametrize(
    ("make_level", "words"),
    [
        (lambda: (Empty(6), one(draw(Empty(8), 1), 0)), r"shape \(8, 8\).*needs \(6, 6\)"),
        (lambda: change(Empty(6), 2, 3, 15), r"cell \(2, 3\) holds 15"),
        (lambda: change(Empty(6), 2, 3, 0), r"cell \(2, 3\) holds 0"),
        (lambda: change(Empty(6), 2, 3, cell(KEY, 6)), r"cell \(2, 3\) holds 101"),
        (lambda: change(Empty(6), 1, 1, WALL_CELL), r"agent at \(1, 1\) stands on something"),
        (lambda: change(Empty(6), 3, 3, EMPTY, x=9), r"agent at \(9, 1\).*columns are 0 to 5"),
        (lambda: change(Empty(6), 0, 3, EMPTY), r"leave the grid at \(0, 3\)"),
        (lambda: change(Empty(6), 4, 4, EMPTY), "nothing that Empty asks for; a goal"),
        (lambda: leave_out(DoorKey(6), KEY), "cannot be solved.*use the key"),
        (lambda: change(DynamicObstacles(5, 1), 3, 3, WALL_CELL), "a goal is needed"),
        (lambda: leave_out(UnlockPickup(), BOX), "one target is needed"),
        (lambda: leave_out(Unlock(), LOCKED_DOOR), "no door at"),
        (lambda: change(Memory(7), 5, 3, WALL_CELL), "cannot be solved"),
    ],
)
def test_bad_levels_are_refused(make_level, words: str) -> None:
    environment, level = make_level()
    with pytest.raises(ForageError, match=words):
        check_level(environment, level)


def test_what_lies_behind_things_in_the_way_is_found() -> None:
    """A corridor with two balls in it, one of them in a box: both must be carried out of the way."""
    row = [WALL_CELL] * 3 + [EMPTY] * 3 + [cell(BALL, RED), cell(BOX, GREEN), cell(LOCKED_DOOR, RED), GOAL_CELL]
    grid = np.full((7, 11), WALL_CELL, np.uint8)
    grid[3, :10] = row
    grid[1:6, 1:3] = EMPTY
    grid[3, 1:3] = EMPTY
    grid[1, 1] = HOLDS | GREY << 4 | RED
    walls = np.zeros((5, 9), bool)
    level = one(draw(Empty(5), 1), 0)._replace(grid=grid, x=np.int32(3), y=np.int32(3))
    environment = Maze(walls)
    check_level(environment, level)
    plan = solve(environment, level)
    state = initial_state(level)
    step = jax.jit(lambda state, action: environment.advance(state, action))
    for action in plan or []:
        state, outcome = step(state, action)
    assert plan and outcome.reward > 0
    sealed = level._replace(grid=np.where(grid & HOLDS, cell(BOX, GREY), grid).astype(np.uint8))
    with pytest.raises(ForageError, match="cannot be solved"):
        check_level(environment, sealed)


def test_mazes_are_batches_of_walls() -> None:
    keys = jax.random.split(prng.key(2), 50)
    walls = jax.vmap(lambda key: draw_walls(key, 7, 9, 20))(keys)
    assert walls.shape == (50, 7, 9) and 10 <= walls.sum((1, 2)).mean() <= 20
    maze = Maze(walls[0], goal=(8, 6), max_steps=40)

    def reset(walls, key):
        return with_fields(maze, walls=walls).reset(key)[0]

    states = jax.vmap(reset)(walls, keys)
    assert states.grid.shape == (50, 9, 11) and (states.grid[:, 7, 9] == GOAL_CELL).all()
    inside = np.asarray(states.grid)[:, 1:-1, 1:-1]
    kept = np.asarray(walls).copy()
    kept[:, 6, 8] = False
    np.testing.assert_array_equal(inside == WALL_CELL, kept)
    assert len(np.unique(np.asarray(states.x))) > 3
    state, _ = Maze(walls[0], start=(2, 3), goal=(0, 0), heading=1).reset(prng.key(0))
    assert (int(state.x), int(state.y), int(state.direction)) == (3, 4, 1)


@pytest.mark.parametrize(
    ("make_environment", "words"),
    [
        (lambda: Empty(4), "size 4"),
        (lambda: Memory(8), "size 8; an odd size"),
        (lambda: Empty(max_steps=0), "max_steps is 0"),
        (lambda: Empty(observe=("image", "sound")), "'sound'; it takes one or more of image, full"),
        (lambda: Empty(observe=()), "nothing"),
        (lambda: DynamicObstacles(5, 8), "8 obstacles; 1 to 7"),
        (lambda: ObstructedMaze(5), "5 quarters"),
        (lambda: ObstructedMaze(0), "columns are 0 to 1"),
        (lambda: make("grid:MultiRoom-N6", rooms=12), "12 rooms"),
        (lambda: make("grid:KeyCorridor-S3R1", room_size=2), "size 2"),
        (lambda: Maze(jnp.zeros((3, 3))), "float32"),
        (lambda: Empty(6, level=one(draw(Empty(8), 1), 0)), r"\(8, 8\)"),
    ],
)
def test_bad_options_are_refused(make_environment, words: str) -> None:
    with pytest.raises(ForageError, match=words):
        make_environment()
