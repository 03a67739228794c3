"""The distance of observations from the box that their space declares."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from forage.core.spaces import spaces_by_path

if TYPE_CHECKING:
    from jaxtyping import PyTree

TOLERANCE = 1e-5  # of a bound, which float32 may round
MOST_OUTSIDE = 0.01  # share of a data set's rows


@dataclasses.dataclass(frozen=True)
class Outside:
    """The entry of an observation that was farthest outside its box, and in how many rows one was."""

    by: float
    value: float
    bound: float
    entry: tuple[int, ...]
    count: int
    step: int = 0

    def words(self, path: Sequence[str] = ()) -> str:
        """Describe the entry that is out of bounds, in the part of an observation at `path`."""
        entry = f"entry {self.entry[0] if len(self.entry) == 1 else self.entry}" if self.entry else ""
        what = " ".join(word for word in (".".join(path), entry) if word) or "it"
        side = "above" if self.value > self.bound else "below"
        return f"{what} was {self.value:.6g}, {self.by:.4g} {side} its bound {self.bound:.6g}"


def farthest(rows: np.ndarray, space: gymnasium.spaces.Box) -> Outside | None:
    """Return the entry of rows of observations, `[row, ...]`, that is farthest outside their box; `None` if all are
    within.
    """
    values = np.asarray(rows, np.float64)
    low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
    # Without a bound the room is infinite, and the bound too; what is not finite is somebody else's to say.
    with np.errstate(invalid="ignore"):
        below = low - TOLERANCE * np.maximum(1, np.abs(low)) - values
        above = values - high - TOLERANCE * np.maximum(1, np.abs(high))
    if not ((below > 0) | (above > 0)).any():
        return None
    finite = np.isfinite(values)
    by = np.where(finite, np.maximum(np.where(below > 0, low - values, 0), np.where(above > 0, values - high, 0)), 0)
    if not by.any():
        return None
    row, *where = (int(index) for index in np.unravel_index(np.argmax(by), by.shape))
    entry = tuple(where)
    value = float(values[(row, *entry)])
    bound = float(high[entry] if value > high[entry] else low[entry])
    count = int(by.reshape(len(by), -1).any(axis=1).sum())
    return Outside(float(by[(row, *entry)]), value, bound, entry, count)


def data_outside(file: str, observation: PyTree[Any], space: gymnasium.Space[Any], name: str) -> str | None:
    """Return a sentence about a data set whose observations are of another scale than an environment's.

    `observation`: leaves `[transition, ...]`. A few rows outside the bounds are a simulator's; more than one in a
    hundred are not.
    """
    for path, box in bounded_leaves(space).items():
        rows = np.asarray(functools.reduce(lambda tree, key: tree[key], path, observation))
        found = farthest(rows, box)
        if found is not None and found.count > MOST_OUTSIDE * len(rows):
            return (
                f"{file} has observations outside the bounds of {name} in {found.count:,} of {len(rows):,} rows: "
                f"{found.words(path)}. Agents learn from them as they are; forage data show says more."
            )
    return None


def bounded_leaves(space: gymnasium.Space[Any]) -> dict[tuple[str, ...], gymnasium.spaces.Box]:
    """Return the boxes of a space, by where they are, whose bounds say more than their dtype does."""
    found = {}
    for path, leaf in spaces_by_path(space).items():
        if not isinstance(leaf, gymnasium.spaces.Box) or leaf.dtype.kind not in "iuf":
            continue
        whole = np.iinfo(leaf.dtype) if leaf.dtype.kind in "iu" else None
        low, high = (whole.min, whole.max) if whole else (-np.inf, np.inf)
        if (leaf.low > low).any() or (leaf.high < high).any():
            found[path] = leaf
    return found
