"""An exported policy in plain NumPy.

This file imports nothing but NumPy and the standard library, so it can be copied beside a `policy.npz` to where neither
JAX nor Forage is installed. Loading runs no code from the file: it holds numbers and the names of the operations below.

    policy = PlainPolicy("policy.npz")
    action = policy.act(observation)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

FORMAT = "forage-policy-1"


class PlainPolicy:
    """A trained agent that acts greedily, from a file that `Policy.export("policy.npz")` wrote."""

    def __init__(self, path: str | os.PathLike[str]):
        try:
            with np.load(path, allow_pickle=False) as file:
                about = json.loads(file["about"].tobytes())
                self._known = {name: file[name] for name in file.files if name != "about"}
        except FileNotFoundError:
            raise ValueError(f"There is no policy {path}.") from None
        except Exception as error:  # what damaged bytes make NumPy and zipfile raise has no common type
            raise ValueError(f"{path} is no whole exported policy ({type(error).__name__}: {error}).") from error
        if about.get("format") != FORMAT:
            raise ValueError(f"{path} is a policy of another format ({about.get('format')}), not {FORMAT}.")
        unknown = {name for name, *_ in about["operations"]} - set(OPERATIONS)
        if unknown:
            raise ValueError(f"{path} uses the operation {min(unknown)}, unknown here; use the Forage that wrote it.")
        self.agent, self.environment = about["agent"], about["environment"]
        self._observation, self._action = about["observation"], about["action"]
        self._operations, self._results = about["operations"], about["results"]
        self._inputs = [(np.dtype(dtype), tuple(shape)) for dtype, shape in about["inputs"]]
        self._memories = about["memories"]
        self.reset()

    def __repr__(self) -> str:
        return f"<PlainPolicy: {self.agent} on {self.environment}>"

    def reset(self) -> None:
        """Forget the episode."""
        self._memory = [self._known[f"memory{i}"] for i in range(self._memories)]

    def act(self, observation: Any) -> Any:
        """Return the action for one observation; without memory also those for a batch `[batch, ...]`."""
        given = [np.asarray(leaf) for leaf in _flat(self._observation, observation)]
        wanted = self._inputs[self._memories :]
        if all(x.shape == shape for x, (_, shape) in zip(given, wanted, strict=True)):
            return self._one(given)
        batched = [
            x.shape[1:] == shape and x.ndim == len(shape) + 1 for x, (_, shape) in zip(given, wanted, strict=True)
        ]
        if not all(batched) or len({len(x) for x in given}) > 1:
            shapes = ", ".join(str(shape) for _, shape in wanted)
            raise ValueError(
                f"One observation of {self.environment} has shape {shapes}, not "
                f"{', '.join(str(x.shape) for x in given)}; a batch has one axis before it."
            )
        if self._memories:
            raise ValueError("A policy with memory acts for one observation at a time.")
        return np.stack([self._one([x[row] for x in given]) for row in range(len(given[0]))])

    def _one(self, observation: list[np.ndarray]) -> Any:
        given = [x.astype(dtype) for x, (dtype, _) in zip(observation, self._inputs[self._memories :], strict=True)]
        values: dict[Any, Any] = dict(enumerate([*self._memory, *given])) | self._known
        for name, inputs, outputs, options in self._operations:
            found = OPERATIONS[name](*(values[key] for key in inputs), **options)
            values |= zip(outputs, found if len(outputs) > 1 else [found], strict=True)
        results = [values[key] for key in self._results]
        self._memory = [np.asarray(x) for x in results[: self._memories]]
        return _shaped(self._action, [np.asarray(x) for x in results[self._memories :]])


def _flat(structure: Any, value: Any) -> list[Any]:
    """Return the leaves of a dictionary of dictionaries, in the order of their names; of anything else, itself."""
    if not isinstance(structure, dict):
        return [value]
    if not isinstance(value, dict) or set(value) != set(structure):
        raise ValueError(f"An observation is a dictionary with the keys {', '.join(structure)}.")
    return [leaf for name in sorted(structure) for leaf in _flat(structure[name], value[name])]


def _shaped(structure: Any, leaves: list[Any]) -> Any:
    """Return the inverse of `_flat`: `structure` has the number of each leaf in its place."""
    if not isinstance(structure, dict):
        return leaves[structure]
    return {name: _shaped(inner, leaves) for name, inner in structure.items()}


def _dot_general(x: Any, y: Any, axes: Any) -> Any:
    """Return a product of arrays: `axes` names those summed over, and those that go side by side."""
    (x_sum, y_sum), (x_batch, y_batch) = axes
    if not x_batch:
        return np.tensordot(x, y, (x_sum, y_sum))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = [next(letters) for _ in range(x.ndim)], [next(letters) for _ in range(y.ndim)]
    for i, j in [*zip(x_sum, y_sum, strict=True), *zip(x_batch, y_batch, strict=True)]:
        right[j] = left[i]
    free = [left[i] for i in range(x.ndim) if i not in (*x_sum, *x_batch)]
    free += [right[j] for j in range(y.ndim) if j not in (*y_sum, *y_batch)]
    out = [left[i] for i in x_batch] + free
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x, y)


def _broadcast(x: Any, shape: list[int], axes: list[int]) -> Any:
    """Return the axes of `x` become those called `axes`; all others repeat it."""
    inner = [1] * len(shape)
    for axis, size in zip(axes, np.shape(x), strict=True):
        inner[axis] = size
    return np.broadcast_to(np.reshape(x, inner), shape)


def _split(x: Any, sizes: list[int], axis: int) -> Any:
    parts = np.split(x, np.cumsum(sizes)[:-1], axis)
    return parts if len(parts) > 1 else parts[0]


def _slice(x: Any, start: list[int], limit: list[int], strides: list[int]) -> Any:
    return x[tuple(slice(*each) for each in zip(start, limit, strides, strict=True))]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
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
    "reshape": lambda x, shape: np.reshape(x, shape),
    "broadcast": _broadcast,
    "transpose": lambda x, axes: np.transpose(x, axes),
    "concatenate": lambda *parts, axis: np.concatenate(parts, axis),
    "split": _split,
    "slice": _slice,
    "sum": lambda x, axes: np.sum(x, tuple(axes)),
    "largest": lambda x, axes: np.max(x, tuple(axes)),
    "smallest": lambda x, axes: np.min(x, tuple(axes)),
    "all": lambda x, axes: np.all(x, tuple(axes)),
    "any": lambda x, axes: np.any(x, tuple(axes)),
    "argmax": lambda x, axis, dtype: np.argmax(x, axis).astype(dtype),
    "argmin": lambda x, axis, dtype: np.argmin(x, axis).astype(dtype),
    "dot_general": _dot_general,
}
"""What a policy is made of, by name."""
