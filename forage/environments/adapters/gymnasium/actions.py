"""Conversion of actions: from an agent's choice to an action of the Gymnasium environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from jaxtyping import PyTree

from forage.core.arrays import ActionNesting, action_space
from forage.core.types import ForageError


class Door:
    """Turns the actions of `num_envs` agents into those that environments with the action space `inner` take.

    `space` is what agents act in: a Discrete or a flat MultiDiscrete from 0, a Box of floats, or a `MixedSpace`.
    Discrete and floats pass as they are. MultiDiscrete, MultiBinary, whole numbers in a Box that are few
    (`arrays.is_few`), and Dicts and Tuples made of choices are one flat MultiDiscrete, their leaves in the order of the
    space; other boxes, and Dicts and Tuples made of boxes, are one flat Box, whose numbers are rounded where they shall
    be whole; Dicts and Tuples of both are a `MixedSpace`.

    Raises `ForageError` for what is none of these, and for whole numbers without bounds.
    """

    def __init__(self, name: str, inner: spaces.Space[Any], num_envs: int):
        self.name, self.inner, self.num_envs = name, inner, num_envs
        self.space = action_space(name, inner)
        self.shape = (num_envs, *(self.space.shape or ()))
        self._start = int(inner.start) if isinstance(inner, spaces.Discrete) else 0
        self._nest = ActionNesting(self.space, inner)

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
        rows = values.reshape(len(values), -1)
        return list(map(self._nest, rows) if isinstance(inner, spaces.Dict | spaces.Tuple) else self._nest(rows))

    def to_lists(self, action: PyTree[np.ndarray]) -> Any:
        """Return the same as Gymnasium hands it on to single environments: a list, or nested batches of arrays."""
        return self.batch(action) if isinstance(self.inner, spaces.Dict | spaces.Tuple) else self.singles(action)

    def batch(self, action: PyTree[np.ndarray]) -> Any:
        """Return the same as a vector environment takes them: arrays `[env, ...]`, nested as the space is."""
        empty: Any = create_empty_array(self.inner, self.num_envs)
        return concatenate(self.inner, self.singles(action), empty)
