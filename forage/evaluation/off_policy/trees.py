"""Regression trees, whose leaves serve as features: constant on boxes of the columns, split where the data differ.

Source: Ernst, Geurts and Wehenkel, 2005, "Tree-Based Batch Mode Reinforcement Learning", JMLR 6, for trees as action
values; Breiman, Friedman, Olshen and Stone, 1984, "Classification and Regression Trees", for the splits.
"""

from __future__ import annotations

import dataclasses
import heapq

import numpy as np
from jaxtyping import Bool, Float, Int

MOST_CUTS = 31
"""Thresholds of one column, at quantiles of the data."""

Cuts = tuple[Float[np.ndarray, " cut"], ...]
"""The thresholds of each column, ascending."""


def column_cuts(columns: Float[np.ndarray, "row column"]) -> Cuts:
    """Return thresholds between the values of each column, at quantiles where there are many values."""
    found = []
    for values in columns.T:
        different = np.unique(values)
        if len(different) <= MOST_CUTS + 1:
            found.append((different[:-1] + different[1:]) / 2)
        else:
            found.append(np.unique(np.quantile(values, np.linspace(0, 1, MOST_CUTS + 2)[1:-1])))
    return tuple(found)


def bin_columns(columns: Float[np.ndarray, "row column"], cuts: Cuts) -> Int[np.ndarray, "row column"]:
    """Return the number of thresholds below each value."""
    bins = np.empty(columns.shape, np.int64)
    for i, at in enumerate(cuts):
        bins[:, i] = np.searchsorted(at, columns[:, i], side="left")
    return bins


@dataclasses.dataclass(frozen=True, eq=False)
class RegressionTree:
    """A binary tree over binned columns. Node i sends a row left if `bins[column[i]] <= cut[i]`.

    The children of a node are `child` and `child + 1`; a leaf has the column -1, and `leaf` is its number.
    """

    column: Int[np.ndarray, " node"]
    cut: Int[np.ndarray, " node"]
    child: Int[np.ndarray, " node"]
    leaf: Int[np.ndarray, " node"]
    leaves: int

    def leaf_of(self, bins: Int[np.ndarray, "row column"]) -> Int[np.ndarray, " row"]:
        """Return the number of the leaf of each row."""
        node, rows = np.zeros(len(bins), np.int64), np.arange(len(bins))
        while True:
            inner = self.column[node[rows]] >= 0
            rows = rows[inner]
            if not len(rows):
                return self.leaf[node]
            at = node[rows]
            node[rows] = self.child[at] + (bins[rows, self.column[at]] > self.cut[at])

    def features(self, bins: Int[np.ndarray, "row column"]) -> Float[np.ndarray, "row leaf"]:
        """Return one-hot leaves."""
        return np.eye(self.leaves)[self.leaf_of(bins)]


def grow_tree(
    bins: Int[np.ndarray, "row column"], target: Float[np.ndarray, " row"], leaves: int, least: int
) -> RegressionTree:
    """Grow a tree by the splits that reduce the squared error most, best first.

    `leaves`: the largest number of leaves. `least`: rows that each leaf has at least.
    """
    size = int(bins.max(initial=0)) + 1
    places = bins + size * np.arange(bins.shape[1])
    column, cut, child = [-1], [0], [0]
    heap: list[tuple[float, int, int, int, np.ndarray]] = []

    def add_split(node: int, rows: Int[np.ndarray, " some"]) -> None:
        found = _best_split(places[rows], target[rows], size, least)
        if found is not None:
            heapq.heappush(heap, (-found[0], node, found[1], found[2], rows))

    add_split(0, np.arange(len(bins)))
    count = 1
    while heap and count < leaves:
        _, node, column[node], cut[node], rows = heapq.heappop(heap)
        child[node] = len(column)
        for part in (left := bins[rows, column[node]] <= cut[node], ~left):
            column.append(-1)
            cut.append(0)
            child.append(0)
            add_split(len(column) - 1, rows[part])
        count += 1
    leaf = np.cumsum(np.array(column) < 0) - 1
    return RegressionTree(np.array(column), np.array(cut), np.array(child), leaf, count)


def _best_split(
    places: Int[np.ndarray, "row column"], target: Float[np.ndarray, " row"], size: int, least: int
) -> tuple[float, int, int] | None:
    """Return the reduction of the squared error, the column and the bin of the best split; `None` without one."""
    rows, columns = places.shape
    if rows < 2 * least:
        return None
    flat, shape = places.ravel(), (columns, size)
    left = np.bincount(flat, minlength=columns * size).reshape(shape).cumsum(1)[:, :-1]
    sums = np.bincount(flat, np.repeat(target, columns), columns * size).reshape(shape).cumsum(1)[:, :-1]
    allowed: Bool[np.ndarray, "column cut"] = (left >= least) & (rows - left >= least)
    if not allowed.any():
        return None
    total = target.sum()
    gain = sums**2 / np.maximum(left, 1) + (total - sums) ** 2 / np.maximum(rows - left, 1) - total**2 / rows
    best = int(np.where(allowed, gain, -1.0).argmax())
    reduction = float(gain.flat[best])
    return (reduction, best // (size - 1), best % (size - 1)) if reduction > 1e-9 * (1 + target @ target) else None
