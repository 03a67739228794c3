"""An exported policy in plain NumPy.

This file imports nothing but NumPy and the standard library, so it can be copied beside a `policy.npz` to where neither
JAX nor Forage is installed. Loading runs no code from the file: it holds numbers and the names of the operations below.

    policy = PlainPolicy("policy.npz")
    action = policy.act(observation)
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

FORMAT = "forage-policy-2"
ROWS = "rows"
"""The name of the number of rows of a batch, for operations that must know it."""


class PlainProgram:
    """Operations in NumPy that act for a batch: memory and observations in, new memory and actions out.

    `operations` name what they do, what they read, what they make and their options; `known` are numbers they need.
    """

    def __init__(self, operations: list[Any], known: dict[str, np.ndarray], results: list[Any], inputs: int):
        places = {key: place for place, key in enumerate([*range(inputs), ROWS, *known])}
        for _, _, made, _ in operations:
            places |= {key: len(places) + i for i, key in enumerate(made)}
        self._values: list[Any] = [None] * (inputs + 1) + list(known.values()) + [None] * (len(places) - len(known))
        self._calls = [
            (
                partial(OPERATIONS[name], **options) if options else OPERATIONS[name],
                [places[key] for key in read],
                [places[key] for key in made],
            )
            for name, read, made, options in operations
        ]
        self._results = [places[key] for key in results]

    def __call__(self, rows: int, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """Run on arrays that have `rows` rows, without a word about numbers that overflow, as in JAX."""
        values: list[Any] = [*inputs, rows, *self._values[len(inputs) + 1 :]]
        with np.errstate(all="ignore"):
            for function, read, made in self._calls:
                found = function(*[values[place] for place in read])
                if len(made) == 1:
                    values[made[0]] = found
                else:
                    for place, value in zip(made, found, strict=True):
                        values[place] = value
        return [values[place] for place in self._results]


class PlainPolicy:
    """A trained agent that acts greedily, from a file that `Policy.export("policy.npz")` wrote.

    `manifest` describes it: spaces, names of inputs and outputs, normalisation and versions; empty in older files.
    """

    def __init__(self, path: str | os.PathLike[str]):
        try:
            with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:  # NumPy may leave it open
                about = json.loads(file["about"].tobytes())
                known = {name: file[name] for name in file.files if name != "about"}
        except FileNotFoundError:
            raise ValueError(f"There is no policy {path}.") from None
        except Exception as error:  # what damaged bytes make NumPy and zipfile raise has no common type
            raise ValueError(f"{path} is no whole exported policy ({type(error).__name__}: {error}).") from error
        if about.get("format") != FORMAT:
            raise ValueError(
                f"{path} is a policy of another format ({about.get('format')}), not {FORMAT}; export it again."
            )
        unknown = {name for name, *_ in about["operations"]} - set(OPERATIONS)
        if unknown:
            raise ValueError(f"{path} uses the operation {min(unknown)}, unknown here; use the Forage that wrote it.")
        self._build(about, known)

    @classmethod
    def from_content(cls, about: dict[str, Any], known: dict[str, np.ndarray]) -> PlainPolicy:
        """Return the policy of a file's description and arrays."""
        policy = cls.__new__(cls)
        policy._build(about, known)
        return policy

    def _build(self, about: dict[str, Any], known: dict[str, np.ndarray]) -> None:
        self._made_of, known = (about, known), dict(known)
        self.agent, self.environment = about["agent"], about["environment"]
        self.manifest: dict[str, Any] = about.get("manifest", {})
        self._observation, self._action = about["observation"], about["action"]
        self._start = [known.pop(f"memory{i}") for i in range(about["memories"])]
        self._inputs = [(np.dtype(dtype), tuple(shape)) for dtype, shape in about["inputs"]]
        inputs = len(self._start) + len(self._inputs)
        self._program = PlainProgram(about["operations"], known, about["results"], inputs)
        self.reset()

    def __repr__(self) -> str:
        return f"<PlainPolicy: {self.agent} on {self.environment}>"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: the content of the file, and the memory of an episode."""
        return {"made_of": self._made_of, "memory": self._memory}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self._build(*kept["made_of"])
        self._memory = kept["memory"]

    def reset(self, only: Any = None) -> None:
        """Forget the episode; in a batch, with `only`, the episodes where it is true, such as `terminated`."""
        if only is None:
            self._memory: list[np.ndarray] | None = None
        elif self._memory is not None:
            ended = np.asarray(only, bool)
            if self._start and ended.shape != self._memory[0].shape[:1]:
                raise ValueError(
                    f"`only` has shape {ended.shape} where {len(self._memory[0])} episodes are remembered."
                )
            for now, start in zip(self._memory, self._start, strict=True):
                now[ended] = start

    def act(self, observation: Any) -> Any:
        """Return the action for one observation, or those for a batch `[batch, ...]`.

        An agent with memory keeps one for each row of the batch, which is an episode of its own until it is `reset`. A
        policy that learned from a table takes its columns by name, one value or a list of each, and gives the action
        so: `act({"on_hand": 3, "weekday": "Mon"})` returns `{"order": "small"}`.
        """
        columns = self.manifest.get("columns")
        if columns and isinstance(observation, Mapping):
            return decode_columns(columns, self.act(encode_columns(columns, observation)))
        given = [_array(leaf) for leaf in _flat(self._observation, observation)]
        one = all(x.shape == shape for x, (_, shape) in zip(given, self._inputs, strict=True))
        if one:
            given = [x[None] for x in given]
        rows = {x.shape[:1] for x in given}
        if len(rows) > 1 or any(x.shape[1:] != shape for x, (_, shape) in zip(given, self._inputs, strict=True)):
            raise ValueError(
                f"One observation of {self.environment} has shape "
                f"{', '.join(str(shape) for _, shape in self._inputs)}, not "
                f"{', '.join(str(x.shape) for x in given)}; a batch has one axis before it."
            )
        number = len(given[0])
        if self._memory is None:
            self._memory = [np.repeat(x[None], number, axis=0) for x in self._start]
        if self._memory and len(self._memory[0]) != number:
            raise ValueError(
                f"This policy remembers {len(self._memory[0])} episodes, and got {number}; call reset() before."
            )
        given = [_fit(x, dtype, self.environment) for x, (dtype, _) in zip(given, self._inputs, strict=True)]
        actions, self._memory = self.step(given, self._memory)
        return _unflatten(self._action, [_first(x) for x in actions] if one else actions)

    def step(self, given: list[np.ndarray], memory: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the arrays of the actions and of the next memory, for those of a batch; the policy keeps neither.

        `given` are the observation's arrays in the order of `manifest["inputs"]`, of its types.
        """
        found = self._program(len(given[0]), [*memory, *given])
        return found[len(memory) :], [np.array(x) for x in found[: len(memory)]]

    @property
    def start(self) -> list[np.ndarray]:
        """Return the memory at the start of an episode, of one row; empty without memory."""
        return list(self._start)

    def rows_of_actions(self, actions: list[np.ndarray]) -> list[Any]:
        """Return the action of each row as plain data."""
        return [_unflatten(self._action, [x[row].tolist() for x in actions]) for row in range(len(actions[0]))]


DATE = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)(?:[T ](\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?)?(?:Z|[+-]\d\d:?\d\d)?")


def encode_columns(columns: dict[str, Any], values: Mapping[str, Any]) -> np.ndarray:
    """Return the observation for values by the names of a table's columns, one cell or `[batch]` cells each.

    `columns` is the manifest's. Raise `ValueError` for a missing or unknown column and for a bad cell.
    """
    names = [column["name"] for column in columns["observation"]]
    if unknown := next((name for name in values if name not in names), None):
        raise ValueError(f"There is no column {unknown!r}; an observation has {', '.join(names)}.")
    if missing := next((name for name in names if name not in values), None):
        raise ValueError(f"Column {missing} is missing; an observation has {', '.join(names)}.")
    cells = [_array(values[name]) for name in names]
    if len({x.shape for x in cells}) > 1 or cells[0].ndim > 1:
        raise ValueError("Columns have one value each, or lists of one length.")
    entries = []
    for column, given in zip(columns["observation"], cells, strict=True):
        codes = [_code(column, cell, columns["words"]) for cell in given.reshape(-1).tolist()]
        if column["kind"] == "category":
            found = np.eye(len(column["names"]))[np.array(codes, int)]
        else:
            plain = column["kind"] == "boolean"
            found = (np.array(codes)[:, None] - (0 if plain else column["mean"])) / (
                1 if plain else column["deviation"]
            )
        entries.append(found.reshape(*given.shape, -1))
    return np.concatenate(entries, -1).astype(np.float32)


def decode_columns(columns: dict[str, Any], action: Any) -> dict[str, Any]:
    """Return an action, or a batch of actions, by the names of a table's columns; `columns` is the manifest's."""
    chosen, array = columns["action"], np.asarray(action)
    counts = [len(column["names"]) or 2 for column in chosen]
    if columns["joint"] and len(chosen) > 1:
        parts: Any = np.unravel_index(array, counts)
    elif len(chosen) == 1 and chosen[0]["kind"] in ("category", "boolean"):
        parts = [array]
    else:
        parts = [array[..., i] for i in range(len(chosen))]
    found: dict[str, Any] = {}
    for column, part in zip(chosen, parts, strict=True):
        if column["kind"] in ("category", "boolean"):
            part = np.array(column["names"] or ("no", "yes"))[part]
        else:
            part = np.asarray(part, np.float64)
        found[column["name"]] = part if part.ndim else part.item()
    return found


def _code(column: dict[str, Any], cell: Any, words: dict[str, list[str]]) -> float:
    """Return the number of a cell: a name's place, 0 or 1, or days. Raise `ValueError` for a bad one."""
    kind, names, text = column["kind"], column["names"], str(cell).strip()
    if text not in names and (cell is None or text.lower() in words["missing"]):
        cell, text = column["typical"], str(column["typical"])
        if cell is None:
            raise ValueError(f"Column {column['name']} has no value, and none stands for a missing one.")
    if kind in ("category", "boolean"):
        if isinstance(cell, float) and cell.is_integer() and text not in names:
            text = str(int(cell))
        if text in names:
            return names.index(text)
        if kind == "boolean" and text.lower() in (*words["yes"], *words["no"]):
            return int(text.lower() in words["yes"])
        raise ValueError(f"Column {column['name']} takes {', '.join(names) or 'no, yes'}, not {text!r}.")
    date = DATE.fullmatch(text) if kind == "date" else None
    if date and 1 <= int(date[2]) <= 12 and 1 <= int(date[3]) <= 31:  # each month counts 31 days, as in training
        clock = int(date[4] or 0) * 3600 + int(date[5] or 0) * 60 + float(date[6] or 0)
        return ((int(date[1]) - 1970) * 12 + int(date[2]) - 1) * 31 + int(date[3]) - 1 + clock / 86_400
    try:
        number = np.nan if kind == "date" and isinstance(cell, str) else float(text)
    except ValueError:
        number = np.nan
    if not abs(number) <= np.finfo(np.float32).max:
        wanted = "a date such as 2024-01-31" if kind == "date" else "a finite number"
        raise ValueError(f"Column {column['name']} takes {wanted}, not {text!r}.")
    return number


def _first(rows: np.ndarray) -> Any:
    """Return the one row of an array; a single number as Python's, which can be a key."""
    row = rows.reshape(rows.shape[1:])
    return row if row.ndim else row.item()


def _array(leaf: Any) -> np.ndarray:
    """Return a leaf of an observation as an array. Raise `ValueError` for lists of different lengths."""
    try:
        return np.asarray(leaf)
    except ValueError:
        raise ValueError("An observation's lists have different lengths.") from None


def _fit(x: np.ndarray, dtype: np.dtype, environment: str) -> np.ndarray:
    """Return an array in `dtype`. Raise `ValueError` if that changes it: a text, a fraction, or a number too large."""
    if x.dtype == dtype:
        return x
    if x.dtype.kind not in "biuf":
        raise ValueError(f"Observations of {environment} are numbers of type {dtype}, not {x.dtype}.")
    with np.errstate(all="ignore"):
        found = x.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(found, x):
        raise ValueError(f"Observations of {environment} are of type {dtype}, which cannot hold the numbers given.")
    return found


def _flat(structure: Any, value: Any) -> list[Any]:
    """Return the leaves of a dictionary of dictionaries, in the order of their names; of anything else, itself."""
    if not isinstance(structure, dict):
        return [value]
    if not isinstance(value, dict) or set(value) != set(structure):
        raise ValueError(f"An observation is a dictionary with the keys {', '.join(structure)}.")
    return [leaf for name in sorted(structure) for leaf in _flat(structure[name], value[name])]


def _unflatten(structure: Any, leaves: list[Any]) -> Any:
    """Return the inverse of `_flat`: `structure` has the number of each leaf in its place; lists stand for tuples."""
    if isinstance(structure, list):
        return tuple(_unflatten(inner, leaves) for inner in structure)
    if not isinstance(structure, dict):
        return leaves[structure]
    return {name: _unflatten(inner, leaves) for name, inner in structure.items()}


def _dot_general(x: Any, y: Any, axes: Any) -> Any:
    """Return a product of arrays: `axes` names those summed over, and those that go side by side."""
    (x_sum, y_sum), (x_batch, y_batch) = axes
    if not x_batch:
        if np.ndim(y) != 2 or list(x_sum) != [x.ndim - 1]:
            return np.tensordot(x, y, (x_sum, y_sum))
        weights = y.T if y_sum[0] else y  # a layer: called this way it takes a fifth of the time of `tensordot`
        return (
            x @ weights
            if x.ndim == 2
            else (x.reshape(-1, x.shape[-1]) @ weights).reshape(*x.shape[:-1], weights.shape[1])
        )
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = [next(letters) for _ in range(x.ndim)], [next(letters) for _ in range(y.ndim)]
    for i, j in [*zip(x_sum, y_sum, strict=True), *zip(x_batch, y_batch, strict=True)]:
        right[j] = left[i]
    free = [left[i] for i in range(x.ndim) if i not in (*x_sum, *x_batch)]
    free += [right[j] for j in range(y.ndim) if j not in (*y_sum, *y_batch)]
    out = [left[i] for i in x_batch] + free
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x, y)


def _divide(x: Any, y: Any) -> Any:
    """Return a quotient; of integers towards zero, as in JAX."""
    if np.issubdtype(np.result_type(x), np.floating):
        return np.divide(x, y)
    return np.trunc(np.divide(x, y)).astype(np.result_type(x))


def _reshape(x: Any, shape: list[int | None]) -> Any:
    return np.reshape(x, [-1 if size is None else size for size in shape])


def _broadcast(x: Any, rows: int, shape: list[int | None], axes: list[int]) -> Any:
    """Return the axes of `x` become those called `axes`; all others repeat it. `None` stands for the rows."""
    inner = [1] * len(shape)
    for axis, size in zip(axes, np.shape(x), strict=True):
        inner[axis] = size
    sizes = [rows if size is None else size for size in shape]
    x = np.reshape(x, inner)
    return x if inner == sizes else np.broadcast_to(x, sizes)


def _gather(x: Any, indices: Any, axes: list[int], rest: list[int]) -> Any:
    """Look up rows: `axes` of `x` by the numbers on the last axis of `indices`; the other axes become `rest`."""
    others = [axis for axis in range(x.ndim) if axis not in axes]
    within = [np.clip(indices[..., i], 0, x.shape[axis] - 1) for i, axis in enumerate(axes)]  # as JAX does
    found = np.transpose(x, [*axes, *others])[tuple(within)]
    return np.moveaxis(found, range(found.ndim - len(others), found.ndim), rest)


def _split(x: Any, sizes: list[int], axis: int) -> Any:
    ends = accumulate(sizes)
    parts = [x[(slice(None),) * axis + (slice(end - size, end),)] for size, end in zip(sizes, ends, strict=True)]
    return parts if len(parts) > 1 else parts[0]


def _unstack(x: Any, axis: int) -> Any:
    parts = list(np.moveaxis(x, axis, 0))
    return parts if len(parts) > 1 else parts[0]


def _slice(x: Any, start: list[int], limit: list[int], strides: list[int]) -> Any:
    return x[tuple(slice(*each) for each in zip(start, limit, strides, strict=True))]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "rint": np.rint,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "square": np.square,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "logistic": lambda x: 0.5 * (np.tanh(0.5 * x) + 1),
    "integer_pow": lambda x, y: x**y,
    "pow": np.power,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "not": np.invert,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "is_finite": np.isfinite,
    "clamp": lambda low, x, high: np.clip(x, low, high),
    "select": lambda which, no, yes: np.where(which, yes, no),
    "same": lambda x: x,
    "cast": lambda x, dtype: np.asarray(x).astype(dtype),
    "reshape": _reshape,
    "broadcast": _broadcast,
    "transpose": lambda x, axes: np.transpose(x, axes),
    "concatenate": lambda *parts, axis: np.concatenate(parts, axis),
    "stack": lambda *parts, axis: np.stack(parts, axis),
    "gather": _gather,
    "split": _split,
    "unstack": _unstack,
    "slice": _slice,
    "sum": lambda x, axes: np.sum(x, tuple(axes), dtype=x.dtype),
    "largest": lambda x, axes: np.max(x, tuple(axes)),
    "smallest": lambda x, axes: np.min(x, tuple(axes)),
    "all": lambda x, axes: np.all(x, tuple(axes)),
    "any": lambda x, axes: np.any(x, tuple(axes)),
    "argmax": lambda x, axis, dtype: np.argmax(x, axis).astype(dtype),
    "argmin": lambda x, axis, dtype: np.argmin(x, axis).astype(dtype),
    "dot_general": _dot_general,
}
"""The operations of a policy, by name."""
