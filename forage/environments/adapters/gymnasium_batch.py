"""A batch of observations: arrays with the environment axis first, filled one environment at a time."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from jaxtyping import PyTree

from forage.environments.host import array_dtype
from forage.spaces import leaves
from forage.types import ForageError

Path = tuple[str, ...]
"""Where a leaf is in a nested observation; `()` where it is the whole."""

Arrays = dict[Path, np.ndarray]


class Layout:
    """Shapes and dtypes of a batch of `num_envs` observations in `space`, by where the leaves are."""

    def __init__(self, name: str, space: gymnasium.Space[Any], num_envs: int):
        self.name, self.num_envs = name, num_envs
        self.leaves: dict[Path, tuple[tuple[int, ...], np.dtype, set[np.dtype]]] = {
            path: (leaf.shape or (), array_dtype(leaf), set()) for path, leaf in leaves(space).items()
        }

    def empty(self) -> Arrays:
        """New arrays, at each step: JAX may look at NumPy's memory without copying it."""
        return {path: np.empty((self.num_envs, *shape), dtype) for path, (shape, dtype, _) in self.leaves.items()}

    def write(self, arrays: Arrays, index: int, observation: Any, step: int) -> None:
        """Puts one environment's observation into the batch. Assigning would broadcast and round silently: it looks."""
        for path, (shape, dtype, fits) in self.leaves.items():
            value = np.asarray(pick(observation, path) if path else observation)
            if value.shape != shape or not (value.dtype in fits or _fits(value.dtype, dtype)):
                what = f"{'.'.join(path)} " if path else ""
                raise ForageError(
                    f"{self.name} returned observation {what}{value.dtype}{list(value.shape)} "
                    f"at step {step} in environment {index}; its space promises {dtype}{list(shape)}."
                )
            fits.add(value.dtype)
            arrays[path][index] = value


def write_batch(arrays: Arrays, batch: Any) -> None:
    """Copies what a vector environment returned."""
    for path, array in arrays.items():
        array[...] = pick(batch, path)


def copied(arrays: Arrays) -> Arrays:
    """Arrays of their own with the same values."""
    return {path: array.copy() for path, array in arrays.items()}


def nested(arrays: Arrays) -> PyTree[np.ndarray]:
    """The arrays as the space has them: one, or nested dictionaries."""
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
    """The leaf of a nested observation."""
    for key in path:
        observation = observation[key]
    return observation


def _fits(found: np.dtype, wanted: np.dtype) -> bool:
    # Integers may be shortened (int64 to int32), floats too; a float never becomes an integer.
    return np.can_cast(found, wanted, "same_kind") or (found.kind in "iub" and wanted.kind in "iub")
