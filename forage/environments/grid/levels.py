"""Levels as data: play a given one, change one, keep them in a file, and see that they can be played."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, TypeVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Key

from forage.core.storage import archives
from forage.core.types import ForageError
from forage.environments.grid.cells import (
    AGENT,
    CARRIED,
    COLOURS,
    EMPTY,
    GOAL,
    LOCKED_DOOR,
    UNSEEN,
    WALL,
    WALL_CELL,
    look_up,
)
from forage.environments.grid.core import DONE, PICKUP, TOGGLE, GridWorld, Level, initial_state
from forage.environments.grid.layout import empty_cells, pick, put, rectangle, uniform_integer
from forage.environments.grid.solve import neighbours, solve

World = TypeVar("World", bound=GridWorld)


def with_level(environment: World, level: Level) -> World:
    """Return the environment with every episode beginning in `level`.

    Levels with leading axes make a batch of environments: `jax.vmap(lambda level: with_level(env, level).reset(key))`.
    Raises `ForageError` if the level's arrays are not those of the environment; see `check_level` for the rest.
    """
    if np.ndim(level.x) == 0:
        environment.check_shape(level)
    return equinox.tree_at(lambda env: env.level, environment, level, is_leaf=lambda leaf: leaf is None)


def mutate(level: Level, key: Key[Array, ""], edits: int = 1) -> Level:
    """Make a few random changes: with equal chances toggle a wall, move an object or move the agent.

    Only the cells inside the outer wall are touched; walls are built or torn down; objects are goals, keys, balls and
    boxes with their contents, and move to empty cells. Walls are built neither on the agent nor on a cell that the
    rules name. A changed level need not be solvable: see `check_level`.

    Source: the edits of Parker-Holder et al. (2022), "Evolving Curricula with Regret-Based Environment Design", arXiv
    2203.01302.
    """
    for edit_key in jax.random.split(key, edits):
        kind, where, to, turn = jax.random.uniform(edit_key, (4,))
        kind = uniform_integer(kind, 0, 3)
        grid = level.grid
        height, width = grid.shape
        inner = rectangle(grid, 1, 1, width - 2, height - 2)

        here = put(jnp.zeros((height, width), jnp.uint8), level.x, level.y, 1) == 1
        cells = jnp.arange(height * width, dtype=jnp.int32).reshape(height, width)
        named = (cells[None] == level.places[:, None, None]).any(0)
        x, y = pick(inner & ~here & ~named & ((grid == EMPTY) | (grid & 0x8F == WALL)), where)
        built = put(grid, x, y, jnp.where(grid[y, x] == EMPTY, WALL_CELL, EMPTY), when=(kind == 0) & inner[y, x])

        things = inner & (look_up(CARRIED, grid) | (grid & 0x8F == GOAL))
        (x, y), (to_x, to_y) = pick(things, where), pick(inner & empty_cells(grid, level.x, level.y) & ~named, to)
        moves = (kind == 1) & things[y, x] & (grid[to_y, to_x] == EMPTY)
        moved = put(put(built, to_x, to_y, grid[y, x], when=moves), x, y, EMPTY, when=moves)
        places = jnp.where((level.places == y * width + x) & moves, to_y * width + to_x, level.places)

        walks = (kind == 2) & (grid[to_y, to_x] == EMPTY)
        level = level._replace(
            grid=moved,
            x=jnp.where(walks, to_x, level.x),
            y=jnp.where(walks, to_y, level.y),
            direction=jnp.where(walks, uniform_integer(turn, 0, 4), level.direction),
            places=places,
        )
    return level


def save_levels(path: str | Path, levels: Level) -> None:
    """Write one level, or many stacked along leading axes, to an npz file."""
    with open(path, "wb") as file:
        arrays: dict[str, Any] = {name: np.asarray(leaf) for name, leaf in levels._asdict().items()}
        np.savez_compressed(file, **arrays)


def load_levels(path: str | Path) -> Level:
    """Read a file of `save_levels`. Raise `ForageError` for any other file."""
    try:
        with archives.open_archive(path) as saved:
            leaves = {name: saved[name] for name in Level._fields}
    except FileNotFoundError:
        raise ForageError(f"There is no file {path}; save_levels writes one.") from None
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ForageError(f"{path} is not a file of levels; save_levels writes one.") from error
    types = {"grid": np.uint8, "target": np.uint8}
    return Level(**{name: jnp.asarray(leaf, types.get(name, jnp.int32)) for name, leaf in leaves.items()})


def check_level(environment: GridWorld, level: Level) -> None:
    """Raise `ForageError`, with one sentence, for a level that is malformed or cannot be solved.

    Whether it can be solved is what `solve` says: wrong, on the safe side, only for levels in which something has to
    be put down where it blocks the way to something else.
    """
    name = type(environment).__name__
    environment.check_shape(level)
    grid = np.asarray(level.grid)
    x, y, direction = int(level.x), int(level.y), int(level.direction)
    if bad := np.argwhere(~_known(grid)).tolist():
        raise ForageError(f"The level's cell {tuple(bad[0][::-1])} holds {grid[tuple(bad[0])]}, which is no object.")
    if not (0 <= x < grid.shape[1] and 0 <= y < grid.shape[0] and 0 <= direction < 4):
        raise ForageError(
            f"The level's agent at {(x, y)} looking in direction {direction} is outside; columns are 0 to "
            f"{grid.shape[1] - 1}, rows 0 to {grid.shape[0] - 1} and directions 0 to 3."
        )
    if grid[y, x] != EMPTY:
        raise ForageError(f"The level's agent at {(x, y)} stands on something; an empty cell would do.")
    state = initial_state(level)
    aim = environment.aim(state)
    if not aim.places:
        raise ForageError(f"The level has nothing that {name} asks for; {aim.wants} is needed.")
    if aim.action == PICKUP and len(aim.places) > 1:
        raise ForageError(f"The level has {len(aim.places)} of what {name} asks for; {aim.wants} is needed.")
    if aim.action in (TOGGLE, DONE):
        for column, row in aim.places:
            if not 0 <= row < grid.shape[0] or int(grid[row, column]) & 0x8F not in (4, 11, LOCKED_DOOR):
                raise ForageError(f"The level has no door at {(column, row)}, where {name} asks for one.")
    if (way := _way_out(grid, (x, y), set(aim.avoid))) is not None:
        raise ForageError(f"The level's agent could leave the grid at {way}; walls all around are needed.")
    if solve(environment, state) is None:
        raise ForageError(f"The level cannot be solved: there is no way for the agent to {environment.text(state)!r}.")


def _known(grid: np.ndarray) -> Bool[np.ndarray, "height width"]:
    kind, colour = grid & 15, grid >> 4 & 7
    plain = (kind != UNSEEN) & (kind != AGENT) & (kind <= LOCKED_DOOR)
    return np.where(grid >> 7 == 1, grid & 7 < len(COLOURS), plain) & (colour < len(COLOURS))


def _way_out(grid: np.ndarray, start: tuple[int, int], avoid: set[tuple[int, int]]) -> tuple[int, int] | None:
    """Return a cell on the rim within walking distance, with every door open and every object removed."""
    height, width = grid.shape
    reached, stack = {start}, [start]
    while stack:
        x, y = here = stack.pop()
        if x in (0, width - 1) or y in (0, height - 1):
            return here
        for there in neighbours(here):
            if there not in reached and there not in avoid and grid[there[1], there[0]] & 0x8F != WALL:
                reached.add(there)
                stack.append(there)
    return None
