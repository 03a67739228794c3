"""Observations in JSON: checked against a policy's manifest, and made arrays of a batch."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from forage.core.columns import Columns
from forage.core.errors import ForageError, nearest


class Refusal(Exception):
    """A request that is refused: the status of HTTP, and a sentence for the person who sent it."""

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One array of an observation."""

    path: tuple[str, ...]  # its keys in nested dictionaries
    space: dict[str, Any]  # as `forage.core.spaces.to_json` describes it
    dtype: np.dtype
    shape: tuple[int, ...]
    columns: tuple[str, ...] = ()  # names of its entries, where it is a vector that has some

    @property
    def name(self) -> str:
        """Return the name for sentences."""
        return ".".join(("observation", *self.path))


def leaves_of(manifest: dict[str, Any]) -> list[Leaf]:
    """Return the arrays of an observation, in the order in which the policy takes them."""
    spaces = by_path(manifest["observation_space"])
    return [
        Leaf(path, space, np.dtype(entry["dtype"]), tuple(entry["shape"]), tuple(entry.get("columns", ())))
        for (path, space), entry in zip(spaces, manifest["inputs"], strict=True)
    ]


def by_path(space: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """Return the path and the description of each space in nested dictionaries, in the order of their keys."""
    if space["kind"] != "dict":
        return [(path, space)]
    return [found for key in sorted(space["spaces"]) for found in by_path(space["spaces"][key], (*path, key))]


def read_rows(leaves: list[Leaf], rows: list[Any]) -> list[np.ndarray]:
    """Return the arrays of a batch of observations. Raise `Refusal` for the first misfit."""
    return [
        leaf_array(leaf, [leaf_value(leaf, row, number, leaves) for number, row in enumerate(rows)]) for leaf in leaves
    ]


def leaf_value(leaf: Leaf, row: Any, number: int, leaves: list[Leaf]) -> Any:
    """Return the value of one leaf in a row. Raise `Refusal` for missing and unknown keys."""
    for depth, key in enumerate(leaf.path):
        siblings = {other.path[depth] for other in leaves if other.path[:depth] == leaf.path[:depth]}
        check_keys(row, siblings, number, ".".join(("observation", *leaf.path[:depth])))
        row = row[key]
    return row


def encode_row(table: Columns, row: Any, number: int) -> Any:
    """Return the numbers of a row that names the columns of a table, or a row of numbers as it is."""
    if not isinstance(row, dict):
        return row
    flags = {column.name for column in table.observation if column.numbered}
    for name, cell in row.items():
        if isinstance(cell, dict | list):
            raise Refusal(400, f"Row {number}: column {name} has one value in each row, not {json_kind(cell)}.")
        if isinstance(cell, bool) and name not in flags:
            raise Refusal(400, f"Row {number}: column {name} is made of numbers, not of true and false.")
    try:
        return table.encode_observation(row, f"Row {number}: ")
    except ForageError as error:
        raise Refusal(400, str(error)) from None


def check_keys(value: Any, wanted: set[str], number: int, name: str) -> None:
    """Raise `Refusal` unless a value is a dictionary with exactly these keys."""
    said = ", ".join(sorted(wanted))
    if not isinstance(value, dict):
        raise Refusal(400, f"Row {number}: {name} is an object with the keys {said}, not {json_kind(value)}.")
    if missing := sorted(wanted - value.keys()):
        raise Refusal(400, f"Row {number}: {name} lacks {', '.join(missing)}; it has the keys {said}.")
    if unknown := sorted(value.keys() - wanted):
        hint = nearest(unknown[0], sorted(wanted))
        hint = f"; it has the keys {said}." if hint == "." else hint
        raise Refusal(400, f"Row {number}: {name} has the unknown key {unknown[0]!r}{hint}")


def json_kind(value: Any) -> str:
    """Return the name of a JSON value's kind."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def leaf_array(leaf: Leaf, values: list[Any]) -> np.ndarray:
    """Return the values of all rows as one array. Raise `Refusal` for the first row that is not of the space."""
    try:
        array = np.asarray(values)
    except ValueError:  # of different lengths
        array = None
    if array is None or array.dtype.kind not in "biuf" or array.shape[1:] != leaf.shape:
        raise Refusal(400, first_misfit(leaf, values))
    if array.dtype.kind == "b" and leaf.space["kind"] != "multi-binary" and leaf.dtype.kind != "b":
        raise Refusal(400, f"Row 0: {leaf.name} is made of numbers, not of true and false.")
    with np.errstate(all="ignore"):
        found = array.astype(leaf.dtype)
    wrong = ~np.isfinite(found) if leaf.dtype.kind == "f" else (found != array) | ~choice_mask(leaf, array)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = f" at {list(place[1:])}" if place[1:] else ""
        raise Refusal(
            400, f"Row {place[0]}: {leaf.name} has {array[place].item()!r}{where}; it takes {describe(leaf)}."
        )
    return found


def first_misfit(leaf: Leaf, values: list[Any]) -> str:
    """Return a sentence about the first row of another shape than the leaf's, or not of numbers."""
    for number, value in enumerate(values):
        try:
            one = np.asarray(value)
        except ValueError:
            return f"Row {number}: the lists in {leaf.name} have different lengths; it takes {describe(leaf)}."
        if one.dtype.kind not in "biuf":
            return f"Row {number}: {leaf.name} has other things than numbers in it; it takes {describe(leaf)}."
        if one.shape != leaf.shape:
            return f"Row {number}: {leaf.name} has shape {list(one.shape)}; it takes {describe(leaf)}."
    return f"Rows of {leaf.name} mix numbers that no one type holds; it takes {describe(leaf)}."


def choice_mask(leaf: Leaf, array: np.ndarray) -> np.ndarray:
    """Return the mask of the whole numbers that are choices of the space; all are, of a box."""
    space = leaf.space
    if space["kind"] == "multi-binary":
        return (array == 0) | (array == 1)
    start, size = space.get("start") or 0, space.get("n", space.get("nvec", space.get("vocabulary")))
    if size is None:
        return np.ones(array.shape, bool)
    return (array >= np.asarray(start)) & (array < np.asarray(start) + np.asarray(size))


def describe(leaf: Leaf) -> str:
    """Return the values that a leaf takes, in words."""
    space, shape = leaf.space, list(leaf.shape)
    if space["kind"] == "discrete":
        kind = f"whole numbers from {space['start']} to {space['start'] + space['n'] - 1}"
    elif space["kind"] == "multi-discrete":
        kind = f"choices below {space['nvec']}"
    elif space["kind"] == "tokens":
        kind = f"token numbers below {space['vocabulary']}"
    elif space["kind"] == "multi-binary":
        kind = "zeros and ones"
    else:
        kind = "finite numbers" if leaf.dtype.kind == "f" else f"whole numbers that fit into {leaf.dtype}"
    columns = f" ({', '.join(leaf.columns)})" if leaf.columns else ""
    return f"{kind} in the shape {shape}{columns}" if shape else f"one of {kind}" if leaf.dtype.kind != "f" else kind
