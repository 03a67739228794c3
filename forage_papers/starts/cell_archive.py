"""An archive with one state for each cell, the best one found, and its path from the reset."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from forage_papers.starts.cells import NONE

FAR = 2**31 - 1


class Link(NamedTuple):
    """An entry of the archive: its slot, -1 for none, and its serial number, since a slot may be used again."""

    slot: Int[Array, "*shape"]
    serial: Int[Array, "*shape"]


class Path(NamedTuple):
    """The score and steps of an episode since `environment.reset`, including the path to its start in the archive."""

    score: Float[Array, "*shape"]  # sum of rewards
    steps: Int[Array, "*shape"]


class Archive(NamedTuple):
    """The states that were kept; leaves [capacity, ...]."""

    env_state: Any
    observation: PyTree[Array]
    cell: UInt32[Array, " slot"]  # `NONE` where nothing is, or a better state of the same cell was found
    serial: Int[Array, " slot"]  # counts entries from 1; 0 where nothing was kept yet
    path: Path
    parent: Link  # the entry before it on its path
    visits: Int[Array, " slot"]
    chosen: Int[Array, " slot"]


class FoundStates(NamedTuple):
    """The states that the archive took of a rollout, one for each cell that was seen there."""

    slot: Int[Array, " cell"]  # out of bounds where nothing was taken
    serial: Int[Array, " cell"]
    row: Int[Array, " cell"]  # of the rollout
    written: Bool[Array, " cell"]
    number: Int[Array, ""]


def follow_scores(
    running: Path, started: Path, begins: Bool[Array, "time env"], reward: Float[Array, "time env"]
) -> Path:
    """Score and steps after each step (leaves `time env`), since the reset that the path began with."""

    def step(path: Path, now: tuple[Path, Bool[Array, " env"], Float[Array, " env"]]) -> tuple[Path, Path]:
        started, begins, reward = now
        path = pick(begins, started, path)
        path = Path(path.score + reward, path.steps + 1)
        return path, path

    return jax.lax.scan(step, running, (started, begins, reward))[1]


def offer(
    archive: Archive,
    entries: Int[Array, ""],
    cells: UInt32[Array, " row"],
    paths: Path,
    begins: Bool[Array, "time env"],
    origins: UInt32[Array, " row"],
    rows: tuple[Any, PyTree[Array]],
) -> tuple[Archive, FoundStates]:
    """Count visits, and take the best state of each cell that is new or reached better than before.

    Where an episode passes through its own origin, the cell it began from, that is no visit.
    """
    size, count = archive.cell.shape[0], cells.shape[0]
    episode = (jnp.cumsum(begins, 0) * begins.shape[1] + jnp.arange(begins.shape[1])).reshape(-1)
    # Rows of one cell side by side, its episodes too: a group for each cell, of which one row wins.
    order = jnp.lexsort((episode, cells))
    sorted_cells, sorted_episodes = cells[order], episode[order]
    new_cell = jnp.append(True, sorted_cells[1:] != sorted_cells[:-1])
    new_episode = new_cell | jnp.append(True, sorted_episodes[1:] != sorted_episodes[:-1])
    group = jnp.cumsum(new_cell) - 1
    score, steps = paths.score.reshape(-1)[order], paths.steps.reshape(-1)[order]
    highest = jax.ops.segment_max(score, group, count, True)
    short = jnp.where(score == highest[group], steps, FAR)
    fewest = jax.ops.segment_min(short, group, count, True)
    row = jax.ops.segment_min(jnp.where(short == fewest[group], order, count), group, count, True)
    row = jnp.minimum(row, count - 1)
    visit = new_episode & (sorted_cells != origins[order])
    visits = jax.ops.segment_sum(visit.astype(jnp.int32), group, count, True)
    cell = jnp.where(jnp.arange(count) <= group[-1], cells[row], NONE)

    # Of the archive nothing is sorted, as it is larger than many a rollout: its cells are looked for among the groups.
    group_of = jnp.minimum(jnp.searchsorted(cell, archive.cell), count - 1)
    same = drop_index((archive.cell != NONE) & (cell[group_of] == archive.cell), group_of, count)
    slot = jnp.zeros(count, jnp.int32).at[same].set(jnp.arange(size), mode="drop")
    some, known = cell != NONE, jnp.zeros(count, bool).at[same].set(True, mode="drop")
    equal = (highest == archive.path.score[slot]) & (fewest < archive.path.steps[slot])
    better = some & (~known | (highest > archive.path.score[slot]) | equal)

    # Entries go where nothing is yet, then where a better state was found since, the oldest first.
    vacant = archive.cell == NONE
    free = oldest(vacant, archive.serial, min(count, size))
    turn = jnp.cumsum(better) - 1
    fits = better & (turn < vacant.sum())
    target = jnp.where(fits, free[jnp.minimum(turn, len(free) - 1)], slot)
    written = fits | (better & known)
    target = drop_index(written, target, size)

    everywhere = archive.visits.at[drop_index(known, slot, size)].add(visits, mode="drop")
    left = archive.cell.at[drop_index(fits & known, slot, size)].set(NONE, mode="drop")
    serial = entries + jnp.cumsum(written).astype(jnp.int32)
    env_state, observation = jax.tree.map(
        lambda kept, rows: kept.at[target].set(rows[row], mode="drop"), archive[:2], rows
    )
    archive = archive._replace(
        env_state=env_state,
        observation=observation,
        cell=left.at[target].set(cell, mode="drop"),
        serial=archive.serial.at[target].set(serial, mode="drop"),
        path=Path(
            archive.path.score.at[target].set(highest, mode="drop"),
            archive.path.steps.at[target].set(fewest, mode="drop"),
        ),
        visits=everywhere.at[target].set(0, mode="drop"),
        chosen=archive.chosen.at[target].set(0, mode="drop"),
    )
    return archive, FoundStates(target, serial, row, written, written.sum())


def oldest(vacant: Bool[Array, " slot"], serial: Int[Array, " slot"], number: int) -> Int[Array, " number"]:
    """Return `number` slots: vacant ones with the smallest serial numbers first, then others."""
    # Processors select among floats fifty times sooner than they sort integers. The bits of floats are in their order.
    age = jax.lax.bitcast_convert_type(serial + 2**23, jnp.float32)  # from the smallest that is not rounded to zero
    return jax.lax.top_k(jnp.where(vacant, -age, -jnp.inf), number)[1]


def trace_entries(
    at: Link, started: Link, begins: Bool[Array, "time env"], found: FoundStates, shape: tuple[int, ...]
) -> tuple[Link, Link]:
    """Return each environment's last entry after the rollout, and before each step's own (leaves `time env`)."""
    rows = drop_index(found.written, found.row, shape[0] * shape[1])
    made = Link(jnp.full(shape[0] * shape[1], -1), jnp.zeros(shape[0] * shape[1], jnp.int32))
    made = Link(made.slot.at[rows].set(found.slot, mode="drop"), made.serial.at[rows].set(found.serial, mode="drop"))

    def step(at: Link, now: tuple[Link, Bool[Array, " env"], Link]) -> tuple[Link, Link]:
        started, begins, made = now
        before = pick(begins, started, at)
        return pick(made.slot >= 0, made, before), before

    return jax.lax.scan(step, at, (started, begins, jax.tree.map(lambda x: x.reshape(shape), made)))


def adopt_parents(archive: Archive, found: FoundStates, before: Link) -> Archive:
    """Return the archive with the parent of each new entry, from the links of the rollout (leaves `time env`)."""
    parent = jax.tree.map(
        lambda old, rows: old.at[found.slot].set(rows.reshape(-1)[found.row], mode="drop"), archive.parent, before
    )
    return archive._replace(parent=parent)


def empty(capacity: int, place: tuple[Any, PyTree[Array]]) -> Archive:
    """Return an archive without entries, filled with one state and observation that are never drawn."""
    places = jax.tree.map(lambda x: jnp.broadcast_to(x, (capacity, *x.shape)), place)
    zeros, size = jnp.zeros(capacity, jnp.int32), (capacity,)
    cell = jnp.full(size, NONE, jnp.uint32)
    return Archive(places[0], places[1], cell, zeros, empty_path(size), no_link(size), zeros, zeros)


def empty_path(shape: tuple[int, ...]) -> Path:
    return Path(jnp.zeros(shape), jnp.zeros(shape, jnp.int32))


def no_link(shape: tuple[int, ...]) -> Link:
    return Link(jnp.full(shape, -1), jnp.zeros(shape, jnp.int32))


def pick(which: Bool[Array, "*shape"], yes: Any, no: Any) -> Any:
    """`where`, leaf by leaf."""
    return jax.tree.map(lambda yes, no: jnp.where(which, yes, no), yes, no)


def flatten_rows(tree: Any) -> Any:
    """Leaves `time env ...` or `episode time ...` as `row ...`, also those without entries."""
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), tree)


def drop_index(keep: Bool[Array, " row"], index: Int[Array, " row"], size: int) -> Int[Array, " row"]:
    """Return the index, or one out of bounds for rows that are not kept."""
    return jnp.where(keep, index, size)
