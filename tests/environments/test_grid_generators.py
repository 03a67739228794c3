"""Levels of the grid worlds' generators: by the rules, solvable, and distributed as the `minigrid` package's."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest
from grid_reference import count, draw, one, package_make, state_of

from forage.environments import make
from forage.environments.grid.cells import BALL, BOX, CLOSED_DOOR, EMPTY, GOAL, GREY, HOLDS, KEY, LOCKED_DOOR, WALL
from forage.environments.grid.core import GridWorld, Level
from forage.environments.grid.levels import check_level

pytestmark = pytest.mark.thorough

NUMBER = 512

# How many levels of each are searched for a way.
FAMILIES = {
    "Empty-Random-5x5": 30,
    "FourRooms": 30,
    "DoorKey-5x5": 60,
    "DoorKey-8x8": 30,
    "MultiRoom-N2-S4": 30,
    "MultiRoom-N4-S5": 30,
    "MultiRoom-N7-S8": 30,
    "KeyCorridor-S3R1": 30,
    "KeyCorridor-S3R3": 60,
    "KeyCorridor-S6R3": 20,
    "ObstructedMaze-1Dlhb": 30,
    "ObstructedMaze-2Dl": 30,
    "ObstructedMaze-2Dlhb": 20,
    "ObstructedMaze-Full": 8,
    "Unlock": 30,
    "UnlockPickup": 30,
    "BlockedUnlockPickup": 30,
    "LavaGap-S7": 60,
    "DynamicObstacles-Random-5x5": 30,
    "DynamicObstacles-16x16": 30,
    "Memory-S7": 30,
    "Memory-S17Random": 30,
    "GoToDoor-8x8": 60,
    "RedBlueDoors-6x6": 30,
}


@functools.cache
def draw_case(name: str) -> tuple[GridWorld, Level]:
    """The environment and many of its levels."""
    environment = make(f"grid:{name}")
    return environment, draw(environment, NUMBER)


@pytest.mark.parametrize("name", FAMILIES)
def test_levels_can_be_solved(name: str) -> None:
    environment, levels = draw_case(name)
    for number in range(FAMILIES[name]):
        check_level(environment, one(levels, number))


@pytest.mark.parametrize("name", FAMILIES)
def test_levels_differ_and_begin_on_an_empty_cell(name: str) -> None:
    _, levels = draw_case(name)
    assert (levels.grid[np.arange(NUMBER), levels.y, levels.x] == EMPTY).all()
    assert set(np.unique(levels.direction)) <= {0, 1, 2, 3}
    different = {b"".join(np.ascontiguousarray(leaf[n]).tobytes() for leaf in levels) for n in range(NUMBER)}
    few = {"Empty-Random-5x5": 32, "LavaGap-S7": 15, "Memory-S7": 16, "DoorKey-5x5": 40}
    assert len(different) >= few.get(name, 60)


def test_each_family_has_its_objects() -> None:
    wanted: dict[str, dict[tuple[int, ...], int]] = {
        "FourRooms": {(GOAL,): 1, (WALL,): 4 * 18 + 2 * 17 - 1 - 4},
        "DoorKey-8x8": {(GOAL,): 1, (KEY,): 1, (LOCKED_DOOR,): 1},
        "MultiRoom-N7-S8": {(GOAL,): 1, (CLOSED_DOOR,): 6},
        "KeyCorridor-S6R3": {(BALL,): 1, (KEY,): 1, (LOCKED_DOOR,): 1},
        "ObstructedMaze-1Dlhb": {(BALL,): 2, (HOLDS, HOLDS | 8): 0, (LOCKED_DOOR,): 1},
        "ObstructedMaze-Full": {(BALL,): 9, (LOCKED_DOOR,): 8, (CLOSED_DOOR,): 4},
        "UnlockPickup": {(BOX,): 1, (KEY,): 1, (LOCKED_DOOR,): 1},
        "BlockedUnlockPickup": {(BOX,): 1, (KEY,): 1, (BALL,): 1},
        "DynamicObstacles-16x16": {(GOAL,): 1, (BALL,): 8},
        "Memory-S7": {(KEY, BALL): 3},
        "GoToDoor-8x8": {(CLOSED_DOOR,): 4},
        "RedBlueDoors-6x6": {(CLOSED_DOOR,): 2},
    }
    for name, counts in wanted.items():
        levels = draw_case(name)[1]
        for kinds, number in counts.items():
            if HOLDS not in kinds:
                assert (count(levels, *kinds) == number).all(), (name, kinds)
    boxes = draw_case("ObstructedMaze-Full")[1].grid
    assert ((boxes & HOLDS != 0).sum((1, 2)) == 8).all()
    assert (boxes[boxes & HOLDS != 0] >> 4 & 7 == GREY).all()


def test_keys_fit_and_targets_are_there() -> None:
    for name in ("DoorKey-8x8", "KeyCorridor-S3R3", "UnlockPickup", "BlockedUnlockPickup", "Unlock"):
        grid = draw_case(name)[1].grid
        doors, keys = grid[grid & 0x8F == LOCKED_DOOR], grid[grid & 0x8F == KEY]
        np.testing.assert_array_equal(doors >> 4, keys >> 4)
    for name in ("KeyCorridor-S3R3", "UnlockPickup", "ObstructedMaze-Full"):
        levels = draw_case(name)[1]
        assert ((levels.grid == levels.target[:, None, None]).sum((1, 2)) == 1).all()
    levels = draw_case("GoToDoor-8x8")[1]
    doors = levels.grid.reshape(NUMBER, -1)[np.arange(NUMBER), levels.places[:, 0]]
    np.testing.assert_array_equal(doors, levels.target)
    colours = np.sort(levels.grid[levels.grid & 0x8F == CLOSED_DOOR].reshape(NUMBER, 4) >> 4)
    assert (np.diff(colours) > 0).all()


def test_neighbouring_doors_of_multi_room_differ_in_colour() -> None:
    environment = make("grid:MultiRoom-N2-S4", rooms=3, largest=5)
    grid = draw(environment, 256).grid
    pairs = grid[grid & 0x8F == CLOSED_DOOR].reshape(256, 2) >> 4
    assert (pairs[:, 0] != pairs[:, 1]).all() and len(np.unique(pairs)) == 6


# Our levels and the package's, cell for cell.

COMPARED = {
    "Empty-Random-6x6": 600,
    "FourRooms": 300,
    "DoorKey-6x6": 600,
    "MultiRoom-N2-S4": 300,
    "MultiRoom-N4-S5": 300,
    "KeyCorridor-S3R2": 500,
    "KeyCorridor-S4R3": 300,
    "ObstructedMaze-1Dlhb": 500,
    "ObstructedMaze-2Q-v0": 200,
    "ObstructedMaze-2Q": 200,
    "Unlock": 500,
    "BlockedUnlockPickup": 500,
    "LavaGap-S6": 600,
    "DynamicObstacles-Random-6x6": 600,
    "Memory-S13Random": 300,
    "GoToDoor-6x6": 600,
    "RedBlueDoors-6x6": 500,
}


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize("name", COMPARED)
def test_levels_are_distributed_as_the_packages(name: str) -> None:
    pytest.importorskip("minigrid")
    environment, n, m = make(f"grid:{name}"), COMPARED[name], 4000
    package = package_make(f"grid:{name}")
    assert package.max_steps == environment.max_steps
    theirs = []
    for seed in range(n):
        package.reset(seed=seed)
        theirs.append(state_of(package, environment.num_places))
    theirs = jax.tree.map(lambda *leaves: np.stack(leaves), *theirs)
    ours = draw(environment, m, seed=1)
    assert theirs.grid.shape[1:] == ours.grid.shape[1:]

    def features(levels: Any) -> np.ndarray:
        """Return indicators of each object per cell, each colour, and the agent's position, direction and target."""
        kinds = (WALL, CLOSED_DOOR, LOCKED_DOOR, KEY, BALL, BOX, GOAL, 9)
        held = np.where(levels.grid & HOLDS, BOX, levels.grid & 15)
        rows = [(held == kind).reshape(len(held), -1) for kind in kinds]
        rows += [(levels.grid >> 4 == colour).any((1, 2))[:, None] for colour in range(6)]
        place = (levels.y * levels.grid.shape[2] + levels.x)[:, None]
        rows.append(place == np.arange(levels.grid[0].size))
        rows.append(levels.direction[:, None] == np.arange(4))
        rows.append(levels.target[:, None] == np.arange(128))
        return np.concatenate(rows, 1)

    mine, others = features(ours), features(theirs)
    p, q = mine.mean(0), others.mean(0)
    both = (p * m + q * n) / (n + m)
    sigma = np.sqrt(both * (1 - both) * (1 / n + 1 / m))
    assert (np.abs(p - q) <= 6 * sigma + 2 / n).all(), np.abs(p - q).max()
    for kinds in ((WALL,), (CLOSED_DOOR,), (KEY, BALL)):
        a, b = count(ours, *kinds), count(theirs, *kinds)
        assert abs(a.mean() - b.mean()) <= 5 * np.sqrt(a.var() / m + b.var() / n) + 1e-6, kinds
