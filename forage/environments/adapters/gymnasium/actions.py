"""Conversion of actions: from an agent's choice to an action of the Gymnasium environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from jaxtyping import PyTree

from forage.core.arrays import action_space, inner_spaces
from forage.core.types import ForageError


class Door:
    """Turns the actions of `num_envs` agents into those that environments with the action space `inner` take.

    `space` is what agents act in: a Discrete or a flat MultiDiscrete that counts from 0, or a Box of floats. Discrete
    and floats pass as they are. MultiDiscrete, MultiBinary, whole numbers in a Box that are few (`arrays.is_few`), and
    Dicts and Tuples made of choices are one flat MultiDiscrete, their leaves in the order of the space; other boxes,
    and Dicts and Tuples made of boxes, are one flat Box, whose numbers are rounded where they shall be whole.

    Raises `ForageError` for what is neither, and for whole numbers without bounds.
    """

    def __init__(self, name: str, inner: spaces.Space[Any], num_envs: int):
        self.name, self.inner, self.num_envs = name, inner, num_envs
        self.space = action_space(name, inner)
        self.shape = (num_envs, *(self.space.shape or ()))
        self._start = int(inner.start) if isinstance(inner, spaces.Discrete) else 0

    def singles(self, action: PyTree[np.ndarray]) -> list[Any]:
        """Return the action of each environment. Raise `ForageError` if there is not one for each."""
        inner = self.inner
        if isinstance(inner, spaces.Discrete):
            values = np.asarray(action)
            if values.shape != self.shape:
                raise ForageError(
                    f"{self.name} was sent actions of shape {list(values.shape)}; "
                    f"it takes [{self.num_envs}], one integer for each environment."
                )
            return [value + self._start for value in values.tolist()] if self._start else values.tolist()
        values = np.asarray(action)
        if values.shape != self.shape:
            raise ForageError(
                f"{self.name} was sent actions of shape {list(values.shape)}; it takes {list(self.shape)}."
            )
        if isinstance(inner, spaces.Box):
            return list(box_elements(inner, values, isinstance(self.space, spaces.MultiDiscrete)))
        if isinstance(inner, spaces.MultiDiscrete | spaces.MultiBinary):
            return list((values.reshape(-1, *inner.shape) + getattr(inner, "start", 0)).astype(inner.dtype))
        chosen = isinstance(self.space, spaces.MultiDiscrete)
        return [build_element(inner, iter(np.split(row, self._cuts)), chosen) for row in values]

    def to_lists(self, action: PyTree[np.ndarray]) -> Any:
        """Return the same as Gymnasium hands it on to single environments: a list, or nested batches of arrays."""
        return self.batch(action) if isinstance(self.inner, spaces.Dict | spaces.Tuple) else self.singles(action)

    def batch(self, action: PyTree[np.ndarray]) -> Any:
        """Return the same as a vector environment takes them: arrays `[env, ...]`, nested as the space is."""
        empty: Any = create_empty_array(self.inner, self.num_envs)
        return concatenate(self.inner, self.singles(action), empty)

    @property
    def _cuts(self) -> np.ndarray:
        return np.cumsum([int(np.prod(part.shape or (), dtype=int)) for part in inner_spaces(self.inner)])[:-1]


def box_elements(space: spaces.Box, values: np.ndarray, chosen: bool) -> np.ndarray:
    """Return elements of a box, `[*batch, *shape]`, from numbers, or from the options that were `chosen`."""
    if chosen:
        return (values.reshape(-1, *space.shape) + space.low.astype(np.int64)).astype(space.dtype)
    if space.dtype.kind in "iu":
        # Rounded before they are cut, as bounds of whole numbers may be finer than `float32`.
        return np.clip(np.rint(np.asarray(values, float)), space.low, space.high).astype(space.dtype)
    # Agents' bounds are float32, and the environment's own may lie within those by rounding.
    return np.clip(np.asarray(values, space.dtype), space.low, space.high)


def build_element(space: Any, parts: Iterator[np.ndarray], chosen: bool) -> Any:
    """Return an element of `space` from the numbers of its leaves, in order, or from the options that were `chosen`."""
    if isinstance(space, spaces.Dict):
        return {key: build_element(part, parts, chosen) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(build_element(part, parts, chosen) for part in space.spaces)
    numbers = next(parts)
    if isinstance(space, spaces.Discrete):
        return int(numbers[0]) + int(space.start)
    if isinstance(space, spaces.Box):
        return box_elements(space, numbers.reshape(1, *space.shape), chosen)[0]
    start = getattr(space, "start", 0)
    return (numbers.reshape(space.shape) + start).astype(space.dtype)
