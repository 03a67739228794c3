"""A batch of observations: arrays with the environment axis first, filled one environment at a time."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from jaxtyping import PyTree

from forage.core.host import array_dtype
from forage.core.spaces import fit_dtype, spaces_by_path
from forage.core.types import ForageError

Path = tuple[str, ...]
"""Path of a leaf in a nested observation; `()` for an observation that is a single leaf."""

Arrays = dict[Path, np.ndarray]


class Layout:
    """Shapes and dtypes of a batch of `num_envs` observations in `space`, by path of the leaf."""

    def __init__(self, name: str, space: gymnasium.Space[Any], num_envs: int):
        self.name, self.space, self.num_envs = name, space, num_envs
        self.leaves: dict[Path, tuple[tuple[int, ...], np.dtype, np.ndarray | None]] = {
            path: (leaf.shape or (), array_dtype(leaf), choices(leaf)) for path, leaf in spaces_by_path(space).items()
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
            value = self._array(observation, path, step, index)
            if value.shape != shape:
                raise self._wrong(path, index, step, f"{value.dtype}{list(value.shape)}", f"{dtype}{list(shape)}")
            fitted = self._fit_leaf(value, path, dtype, sizes, step, index)
            with np.errstate(over="ignore"):  # infinity, which is refused with its place later
                arrays[path][index if row is None else row] = fitted

    def read_batch(self, batch: Any, step: int) -> Arrays:
        """Return a batch of observations, each leaf `[env, ...]`, in new arrays. Raise as `write` does."""
        arrays: Arrays = {}
        for path, (shape, dtype, sizes) in self.leaves.items():
            value, whole = self._array(batch, path, step), (self.num_envs, *shape)
            if value.shape != whole:
                raise self._wrong(path, None, step, f"{value.dtype}{list(value.shape)}", f"{dtype}{list(whole)}")
            with np.errstate(over="ignore"):
                arrays[path] = np.array(self._fit_leaf(value, path, dtype, sizes, step), dtype)
        return arrays

    def _array(self, observation: Any, path: Path, step: int, index: int | None = None) -> np.ndarray:
        """Return one leaf as an array. Raise `ForageError` if it is missing, or its lists have different lengths."""
        try:
            return np.asarray(pick(observation, path) if path else observation)
        except (KeyError, IndexError, TypeError):
            where = "" if index is None else f" in environment {index}"
            raise ForageError(
                f"{self.name} returned an observation without its part {'.'.join(path)} at step {step}{where}; return "
                f"every part that its space has."
            ) from None
        except ValueError:
            raise self._wrong(path, index, step, "lists of different lengths", "one shape") from None

    def _fit_leaf(
        self,
        value: np.ndarray,
        path: Path,
        dtype: np.dtype,
        sizes: np.ndarray | None,
        step: int,
        index: int | None = None,
    ) -> np.ndarray:
        """Return a leaf of one environment (all of them without `index`) in the dtype of its array.

        Raise `ForageError` if the cast would change a value, or if a choice is out of range.
        """
        if not value.dtype.kind == dtype.kind == "f":  # floats are rounded as they are written
            try:
                value = fit_dtype(value, dtype)
            except ValueError as error:
                found, promised = (f"{kind}{list(value.shape)}" for kind in (value.dtype, dtype))
                raise self._wrong(path, index, step, found, promised, error) from None
        if sizes is not None and (strange := (value < 0) | (value >= sizes)).any():
            if index is None:
                index = int(np.argwhere(strange)[0][0])
                value = value[index]
            highest = f"whole numbers from 0 to {sizes - 1}" if sizes.ndim == 0 else f"choices among {sizes}"
            raise self._wrong(path, index, step, f"{value}", highest)
        return value

    def _wrong(
        self, path: Path, index: int | None, step: int, found: str, promised: str, why: Any = None
    ) -> ForageError:
        what = f"{'.'.join(path)} " if path else ""
        reason = f" ({why})" if why else ""
        where = "" if index is None else f" in environment {index}"
        return ForageError(
            f"{self.name} returned observation {what}{found}{reason} at step {step}{where}; its space promises "
            f"{promised}."
        )


def copy_arrays(arrays: Arrays) -> Arrays:
    """Arrays of their own with the same values."""
    return {path: array.copy() for path, array in arrays.items()}


def nest(arrays: Arrays) -> PyTree[np.ndarray]:
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
    """Return the number of options of each choice in a leaf; `None` if the leaf does not consist of choices."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return np.asarray(space.n)
    return space.nvec if isinstance(space, gymnasium.spaces.MultiDiscrete) else None
