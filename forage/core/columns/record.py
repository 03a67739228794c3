"""Named columns of a table of transitions, and their code as the arrays that agents learn from.

A number of an observation is standardised, (x - mean) / deviation of the data; a category is one-hot, a yes or no is
one entry of 0 or 1, and a date is a number of days. An action's categories are numbered: one column is a `Discrete`,
several are a `MultiDiscrete`, or, `joint`, one `Discrete` of all combinations, the last column changing fastest.
Numbers of an action are a `Box` with the bounds of the data. `Spec.columns` has the record, so that data sets, runs and
policies that were learned from a table keep its names.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from jaxtyping import Float, Shaped

from forage.core.columns.column import KINDS, Column
from forage.core.errors import ForageError, nearest

MOST_JOINT = 1024  # combinations of a joint action


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a table that an agent observes and chooses, in order."""

    observation: tuple[Column, ...]
    action: tuple[Column, ...]
    joint: bool = False  # several categories of an action are one choice among their combinations
    reward: str = ""  # name of the column that pays

    def __post_init__(self) -> None:
        names = [column.name for column in (*self.observation, *self.action)]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ForageError(f"Column {twice[0]} is named twice; each is observed once or chosen once, not both.")
        if not self.observation or not self.action:
            raise ForageError("A table has one column or more that is observed, and one or more that is chosen.")
        for column in (*self.observation, *self.action):
            if column.kind not in KINDS:
                raise ForageError(f"Column {column.name} is of no kind {column.kind!r}{nearest(column.kind, KINDS)}")
            if column.kind == "category" and not column.names:
                raise ForageError(f"Column {column.name} is a category without names.")
        numbered = {column.numbered for column in self.action}
        if len(numbered) > 1:
            one, other = (next(c for c in self.action if c.numbered is kind).name for kind in (True, False))
            raise ForageError(
                f"The action has choices ({one}) beside numbers ({other}), and that of a table is all of one sort; "
                f'make {other} a category (kind = "category" in [columns.{other}]).'
            )
        if self.joint and (not all(numbered) or math.prod(self.counts) > MOST_JOINT):
            raise ForageError(
                f"A joint action is of categories with at most {MOST_JOINT:,} combinations; leave joint out."
            )

    @property
    def counts(self) -> list[int]:
        """Return the number of choices of each column of the action."""
        return [len(column.names) or 2 for column in self.action]

    @property
    def observation_space(self) -> spaces.Box:
        """Return the space of an encoded observation."""
        flags = np.concatenate([np.full(c.width, c.numbered) for c in self.observation])
        low, high = np.where(flags, 0, -np.inf), np.where(flags, 1, np.inf)
        return spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Return the space of an encoded action."""
        if self.action[0].numbered:
            if len(self.action) == 1 or self.joint:
                return spaces.Discrete(math.prod(self.counts))
            return spaces.MultiDiscrete(self.counts)
        low, high = ([bound(column, end) for column in self.action] for end in ("low", "high"))
        return spaces.Box(np.array(low, np.float32), np.array(high, np.float32), dtype=np.float32)

    def entries(self) -> list[str]:
        """Return a name for each entry of an encoded observation."""
        return [entry for column in self.observation for entry in column.entries()]

    def encode_observation(self, values: Mapping[str, Any], where: str = "") -> Float[np.ndarray, "*batch entry"]:
        """Return the observation for values by the names of columns, each one cell or `[batch]` cells.

        Raise `ForageError` for a missing or unknown column and for a bad cell.
        """
        numbers = read_columns(self.observation, values, where)
        return np.concatenate([c.encode(x) for c, x in zip(self.observation, numbers, strict=True)], -1)

    def encode_action(self, values: Mapping[str, Any], where: str = "") -> Shaped[np.ndarray, "*batch"]:
        """Return the action for values by the names of columns; the inverse of `decode_action`."""
        return self.pack_action(read_columns(self.action, values, where))

    def pack_action(self, numbers: Sequence[np.ndarray]) -> np.ndarray:
        """Return actions as elements of the action space, from the numbers of each column."""
        if not self.action[0].numbered:
            return np.stack([np.asarray(x, np.float32) for x in numbers], -1)
        if len(self.action) == 1:
            return np.asarray(numbers[0], np.int32)
        if self.joint:
            return np.ravel_multi_index([np.asarray(x, np.int64) for x in numbers], self.counts).astype(np.int32)
        return np.stack([np.asarray(x, np.int32) for x in numbers], -1)

    def decode_action(self, action: Any) -> dict[str, Any]:
        """Return an action, or a batch of actions, by the names of columns: names of categories, and numbers."""
        array = np.asarray(action)
        if self.joint and len(self.action) > 1:
            parts: Sequence[Any] = np.unravel_index(array, self.counts)
        elif len(self.action) == 1 and self.action[0].numbered:
            parts = [array]
        else:
            parts = [array[..., i] for i in range(len(self.action))]
        return {column.name: column.cells(part) for column, part in zip(self.action, parts, strict=True)}

    def to_json(self) -> dict[str, Any]:
        """Return plain data from which `from_json` makes the same columns."""
        plain = dataclasses.asdict(self)
        for role in ("observation", "action"):
            plain[role] = [
                {name: list(value) if isinstance(value, tuple) else value for name, value in column.items()}
                for column in plain[role]
            ]
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any] | None) -> Columns | None:
        """Return the columns that `to_json` described; `None` for `None`."""
        if plain is None:
            return None
        made = {
            role: tuple(dataclasses.replace(Column(**column), names=tuple(column["names"])) for column in plain[role])
            for role in ("observation", "action")
        }
        return cls(**made, joint=plain["joint"], reward=plain["reward"])


def bound(column: Column, end: Literal["low", "high"]) -> float:
    """Return a bound of an action's number. A column of a single value v is bounded by v and v + 1."""
    value = getattr(column, end)
    if value is None:
        return -math.inf if end == "low" else math.inf
    return value + 1.0 if end == "high" and value == column.low else value


def read_columns(columns: Sequence[Column], values: Mapping[str, Any], where: str) -> list[np.ndarray]:
    """Return the numbers of columns for values by name, of one common shape."""
    names = [column.name for column in columns]
    for name in values:
        if name not in names:
            raise ForageError(f"{where}there is no column {name!r}{nearest(str(name), names)}")
    missing = [name for name in names if name not in values]
    if missing:
        raise ForageError(f"{where}column {missing[0]} is missing; give {', '.join(names)}.")
    found = [column.parse(values[column.name], where) for column in columns]
    shapes = {x.shape for x in found}
    if len(shapes) > 1 or any(x.ndim > 1 for x in found):
        shown = ", ".join(f"{name} {x.shape}" for name, x in zip(names, found, strict=True))
        raise ForageError(f"{where}columns have one value each, or lists of one length; they have {shown}.")
    return found
