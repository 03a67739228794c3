"""A batch of observations: arrays with the environment axis first, filled one environment at a time."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from jaxtyping import PyTree

from forage.core.host import array_dtype
from forage.core.spaces import fitted, leaves
from forage.core.types import ForageError

Path = tuple[str, ...]
"""Where a leaf is in a nested observation; `()` where it is the whole."""

Arrays = dict[Path, np.ndarray]


class Layout:
    """Shapes and dtypes of a batch of `num_envs` observations in `space`, by where the leaves are."""

    def __init__(self, name: str, space: gymnasium.Space[Any], num_envs: int):
        self.name, self.space, self.num_envs = name, space, num_envs
        self.leaves: dict[Path, tuple[tuple[int, ...], np.dtype, np.ndarray | None]] = {
            path: (leaf.shape or (), array_dtype(leaf), choices(leaf)) for path, leaf in leaves(space).items()
        }

    def empty(self, rows: int | None = None) -> Arrays:
        """Return new arrays, at each step: JAX may look at NumPy's memory without copying it."""
        rows = self.num_envs if rows is None else rows
        return {path: np.empty((rows, *shape), dtype) for path, (shape, dtype, _) in self.leaves.items()}

    def write(self, arrays: Arrays, index: int, observation: Any, step: int, row: int | None = None) -> None:
        """Put one environment's observation into the batch, at `row` or `index`, if it is one of the space.

        Assigning alone would broadcast, round and wrap silently.
        """
        for path, (shape, dtype, sizes) in self.leaves.items():
            value = np.asarray(pick(observation, path) if path else observation)
            if value.shape != shape:
                raise self._wrong(path, index, step, f"{value.dtype}{list(value.shape)}", f"{dtype}{list(shape)}")
            if not value.dtype.kind == dtype.kind == "f":  # floats are rounded as they are written
                try:
                    value = fitted(value, dtype)
                except ValueError as error:
                    promised = f"{dtype}{list(shape)}"
                    raise self._wrong(path, index, step, f"{value.dtype}{list(value.shape)}", promised, error) from None
            if sizes is not None and ((value < 0) | (value >= sizes)).any():
                highest = f"whole numbers from 0 to {sizes - 1}" if sizes.ndim == 0 else f"choices among {sizes}"
                raise self._wrong(path, index, step, f"{value}", highest)
            arrays[path][index if row is None else row] = value

    def _wrong(self, path: Path, index: int, step: int, found: str, promised: str, why: Any = None) -> ForageError:
        what = f"{'.'.join(path)} " if path else ""
        reason = f" ({why})" if why else ""
        return ForageError(
            f"{self.name} returned observation {what}{found}{reason} at step {step} in environment {index}; its space "
            f"promises {promised}."
        )


def write_batch(arrays: Arrays, batch: Any) -> None:
    """Copy what a vector environment returned."""
    for path, array in arrays.items():
        array[...] = pick(batch, path)


def copied(arrays: Arrays) -> Arrays:
    """Arrays of their own with the same values."""
    return {path: array.copy() for path, array in arrays.items()}


def nested(arrays: Arrays) -> PyTree[np.ndarray]:
    """Return the arrays as the space has them: one, or nested dictionaries."""
    if () in arrays:
        return arrays[()]
    tree: dict[str, Any] = {}
    for (*above, name), array in arrays.items():
        at = tree
        for key in above:
            at = at.setdefault(key, {})
        at[name] = array
    return tree


def pick(observation: Any, path: Path) -> Any:
    """Return the leaf of a nested observation."""
    for key in path:
        observation = observation[key]
    return observation


def choices(space: gymnasium.Space[Any]) -> np.ndarray | None:
    """Return how many options each choice of a leaf has, where it is made of choices."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return np.asarray(space.n)
    return space.nvec if isinstance(space, gymnasium.spaces.MultiDiscrete) else None
