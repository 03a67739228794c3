"""A search for a way through a level, on the host: a proof that one exists, and a demonstration."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
from jaxtyping import UInt8

from forage.environments.grid.cells import (
    CARRIED,
    CLOSED_DOOR,
    DOOR,
    EMPTY,
    ENTERED,
    GOAL,
    HOLDS,
    KEY,
    LAVA,
    LOCKED_DOOR,
    TOGGLED,
    WALL,
)
from forage.environments.grid.core import (
    DROP,
    FORWARD,
    LEFT,
    PICKUP,
    RIGHT,
    TOGGLE,
    Aim,
    GridState,
    GridWorld,
    Level,
    initial_state,
)

Place = tuple[int, int]
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
MOST_DEEDS = 400
"""Limit of deeds on the way before the search is given up."""


def solve(environment: GridWorld, start: Level | GridState) -> list[int] | None:
    """Return actions that succeed from a level or a state, or None if no way was found. Not always the shortest.

    The search goes to every reachable cell, opens boxes and doors, fetches keys, and moves obstacles to cells that they
    do not block. Since more open doors never hurt, it finds a way if there is one, with one exception: if an object can
    only be put down in a place that blocks the way to another object, it may find none. Moving obstacles count as
    absent, and time as unlimited.
    """
    state = initial_state(start) if isinstance(start, Level) else start
    aim = environment.aim(state)
    if aim.action == TOGGLE:  # each door in its turn
        search = _Search(state, aim)
        for number, place in enumerate(aim.places):
            search.closed = set(aim.places[number:])
            if search.kind(place) != DOOR and not search.achieve(place, TOGGLE):
                return None
        return search.actions
    for place in aim.places:  # any of them will do
        search = _Search(state, aim)
        if search.achieve(place, aim.action):
            return search.actions
    return None


class _Search:
    """A copy of the world that applies and records actions."""

    def __init__(self, state: GridState, aim: Aim):
        self.grid: UInt8[np.ndarray, "height width"] = np.array(state.grid)
        self.grid[np.isin(self.grid, list(aim.absent))] = EMPTY
        self.at: Place = (int(state.x), int(state.y))
        self.direction, self.carrying = int(state.direction), int(state.carrying)
        self.avoid, self.closed = set(aim.avoid), set[Place]()
        self.actions: list[int] = []

    def cell(self, place: Place) -> int:
        x, y = place
        inside = 0 <= x < self.grid.shape[1] and 0 <= y < self.grid.shape[0]
        return int(self.grid[y, x]) if inside else WALL

    def kind(self, place: Place) -> int:
        return self.cell(place) & (HOLDS | 15)

    def passes(self, place: Place) -> bool:
        if place in self.avoid or place in self.closed or self.kind(place) in (GOAL, LAVA):
            return False
        return bool(ENTERED[self.cell(place)]) or self.kind(place) == CLOSED_DOOR

    def reach(self, start: Place | None = None, without: Place | None = None) -> dict[Place, Place | None]:
        """Return every cell that can be walked to, and the one before it on a shortest way."""
        first = start or self.at
        before: dict[Place, Place | None] = {first: None}
        queue = deque([first])
        while queue:
            here = queue.popleft()
            for there in neighbours(here):
                if there not in before and there != without and self.passes(there):
                    before[there] = here
                    queue.append(there)
        return before

    def achieve(self, place: Place, action: int) -> bool:
        """Do the deeds needed to face a place and act there."""
        for _ in range(MOST_DEEDS):
            reached = self.reach()
            if any(cell in reached for cell in neighbours(place)) and self._finish(place, action):
                return True
            if not self._open_box(reached, place) and not self._unlock(reached) and not self._clear(reached, place):
                return False
        return False

    def _finish(self, place: Place, action: int) -> bool:
        if action == PICKUP and self.carrying != EMPTY and not self._put_down({place}):
            return False
        if self.kind(place) == LOCKED_DOOR and action == TOGGLE:
            return self._unlock(self.reach(), [place])
        if action == FORWARD and not ENTERED[self.cell(place)]:
            return False
        self._use(place, action)
        return True

    def _open_box(self, reached: dict[Place, Place | None], kept: Place) -> bool:
        boxes = [edge for edge in self._edge(reached) if self.cell(edge) & HOLDS and edge != kept]
        if boxes:
            self._use(boxes[0], TOGGLE)
        return bool(boxes)

    def _unlock(self, reached: dict[Place, Place | None], only: Iterable[Place] = ()) -> bool:
        edge = self._edge(reached)
        for door in only or [place for place in edge if self.kind(place) == LOCKED_DOOR and place not in self.closed]:
            fitting = self.cell(door) & 0x70 | KEY
            if self.carrying == fitting:
                self._use(door, TOGGLE)
                return True
            keys = [place for place in edge if self.cell(place) == fitting]
            if keys and (self.carrying == EMPTY or self._put_down(set(edge)) or self._put_down({door, keys[0]})):
                self._use(keys[0], PICKUP)
                self._use(door, TOGGLE)
                return True
        return False

    def _clear(self, reached: dict[Place, Place | None], kept: Place) -> bool:
        """Pick up an object with a place behind it, after the carried object is put out of the way if possible."""
        edge = self._edge(reached)
        for thing in edge:
            known = {*reached, *edge}
            hides = [there for there in neighbours(thing) if there not in known and self.kind(there) != WALL]
            if not CARRIED[self.cell(thing)] or thing == kept or not hides:
                continue
            if self.carrying != EMPTY and not self._put_down(set(edge)):
                continue
            self._use(thing, PICKUP)
            return True
        return False

    def _put_down(self, kept: set[Place]) -> bool:
        """Drop the carried object on the nearest cell that leaves all of `kept` within reach."""
        reached = self.reach()
        for spot in reached:
            if self.cell(spot) != EMPTY or spot == self.at:
                continue
            stand = next((place for place in neighbours(spot) if place in reached), None)
            if stand is None:
                continue
            left = self.reach(stand, without=spot)
            if len(left) == len(reached) - 1 or len(kept) < 3:
                still = {edge for place in left for edge in neighbours(place)}
                if kept - {spot} <= still:
                    self._use(spot, DROP, stand)
                    return True
        return False

    def _edge(self, reached: dict[Place, Place | None]) -> list[Place]:
        """Return the neighbours of the cells that can be walked to, nearest first, without walls."""
        beside = (there for here in reached for there in neighbours(here))
        return [there for there in dict.fromkeys(beside) if there not in reached and self.kind(there) != WALL]

    def _use(self, place: Place, action: int, stand: Place | None = None) -> None:
        """Walk to a neighbour of a place, face it and act."""
        reached = self.reach(without=place if self.kind(place) == CLOSED_DOOR else None)
        here = stand or next(cell for cell in reached if cell in neighbours(place))
        way: list[Place] = []
        while here is not None:
            way.insert(0, here)
            here = reached[here]
        for step in way[1:]:
            self._face(step)
            if self.kind(step) == CLOSED_DOOR:
                self._act(step, TOGGLE)
            self._act(step, FORWARD)
        self._face(place)
        self._act(place, action)

    def _face(self, place: Place) -> None:
        wanted = STEPS.index((place[0] - self.at[0], place[1] - self.at[1]))
        turns = (wanted - self.direction) % 4
        self.actions += [LEFT] if turns == 3 else [RIGHT] * turns
        self.direction = wanted

    def _act(self, place: Place, action: int) -> None:
        cell, new = self.cell(place), self.cell(place)
        if action == FORWARD:
            assert ENTERED[cell]
            self.at = place
        elif action == PICKUP:
            assert CARRIED[cell] and self.carrying == EMPTY
            new, self.carrying = EMPTY, cell
        elif action == DROP:
            assert cell == EMPTY
            new, self.carrying = self.carrying, EMPTY
        elif action == TOGGLE:
            fits = cell & 15 == LOCKED_DOOR and self.carrying == (cell & 0x70 | KEY)
            new = cell & 0x70 | DOOR if fits else int(TOGGLED[cell])
        self.grid[place[1], place[0]] = new
        self.actions.append(action)


def neighbours(place: Place) -> list[Place]:
    """Return the four neighbours of a cell."""
    return [(place[0] + x, place[1] + y) for x, y in STEPS]
