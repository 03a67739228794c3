"""An environment as the log of it shows it: its observations encoded as the log's, and the log's actions as its own."""

from __future__ import annotations

import functools
import json
from typing import Any

import gymnasium
import numpy as np

from forage.core import spaces
from forage.core.columns.column import Column
from forage.core.columns.record import Columns
from forage.core.errors import ForageError
from forage.core.plain import dumps


def log_spaces(spec: Any) -> str:
    """Return the spaces and the columns of a log's spec as JSON."""
    return dumps(
        {
            "observation_space": spaces.to_json(spec.observation_space),
            "action_space": spaces.to_json(spec.action_space),
            "columns": None if spec.columns is None else spec.columns.to_json(),
        }
    )


class LogView:
    """The way from an environment's observations to those of a log, and from the log's actions to the environment's.

    Entry i of an observation is the log's observed column i, and entry i of an action is its chosen column i. A name
    that is a whole number is the choice of that number; other names are choices in their order. Numbers of an action
    are clipped to the environment's bounds. A log without columns has the environment's own observations.

    Raises `ForageError` if the two do not fit.
    """

    def __init__(self, log: str, observation: gymnasium.Space[Any], action: gymnasium.Space[Any], name: str) -> None:
        """`log`: as `log_spaces` returns it. `observation`, `action`: spaces of the environment of this `name`."""
        told = json.loads(log)
        self.observation_space: Any = spaces.from_json(told["observation_space"])
        self.action_space: Any = spaces.from_json(told["action_space"])
        self.columns = Columns.from_json(told["columns"])
        self.action, self.name = action, name
        if self.columns is None:
            self._check_plain(observation)
            return
        whole = isinstance(observation, gymnasium.spaces.Discrete)
        flat = isinstance(observation, gymnasium.spaces.Box) and len(observation.shape) < 2
        count = 1 if whole else int(np.prod(observation.shape or ())) if flat else 0
        seen = self.columns.observation
        if count != len(seen):
            shown = ", ".join(column.name for column in seen)
            raise ForageError(
                f"The data's observations are {len(seen)} columns ({shown}), and those of {name} are "
                f"{spaces.describe_space(observation)}; an environment for them shows a number for each, in this order."
            )
        for column in seen:
            if column.kind == "date" or (column.kind == "category" and not all(map(is_whole_name, column.names))):
                raise ForageError(
                    f"The data's column {column.name} has {column.words}, and {name} shows numbers; leave the column "
                    f"out of the observation, or go without an environment."
                )
        self.choices = self._choices(self.columns.action)

    def _check_plain(self, observation: gymnasium.Space[Any]) -> None:
        for kind, ours, theirs in (
            ("observation", self.observation_space, observation),
            ("action", self.action_space, self.action),
        ):
            if not spaces.same_shape(ours, theirs):
                raise ForageError(self._misfit(kind, ours, theirs))
        self.choices: list[np.ndarray] = []

    def _misfit(self, kind: str, ours: Any, theirs: Any) -> str:
        return (
            f"The data's {kind}s are {spaces.describe_space(ours)}, and those of {self.name} are "
            f"{spaces.describe_space(theirs)}; an environment for them has the same ones."
        )

    def _choices(self, columns: tuple[Column, ...]) -> list[np.ndarray]:
        """Return the environment's choice for each code of each column; an empty list for numbers."""
        space: Any = self.action
        if not columns[0].numbered:
            if not isinstance(space, gymnasium.spaces.Box) or int(np.prod(space.shape)) != len(columns):
                raise ForageError(self._misfit("action", self.action_space, space))
            return []
        single = isinstance(space, gymnasium.spaces.Discrete)
        counts = [space.n] if single else list(getattr(space, "nvec", np.zeros(0)).reshape(-1))
        starts = [space.start] if single else list(np.asarray(getattr(space, "start", 0)).reshape(-1))
        if len(counts) != len(columns):
            raise ForageError(self._misfit("action", self.action_space, space))
        found = []
        for column, count, start in zip(columns, counts, starts, strict=True):
            names = column.names or ("no", "yes")
            numbered = column.kind == "category" and all(map(is_whole_name, names))
            codes = np.array([int(float(name)) for name in names]) if numbered else np.arange(len(names)) + int(start)
            within = (codes >= start) & (codes < start + count)
            if not within.all() or (not numbered and len(names) != count):
                raise ForageError(self._misfit("action", self.action_space, space))
            found.append(codes)
        return found

    def encode(self, observation: Any, xp: Any) -> Any:
        """Return the log's observation for one of the environment's. `xp`: NumPy, or its like in JAX."""
        if self.columns is None:
            return observation
        entries = xp.reshape(xp.asarray(observation), (-1,))
        found = []
        for i, column in enumerate(self.columns.observation):
            if column.kind == "category":
                names = xp.asarray([float(name) for name in column.names])
                found.append((entries[i] == names).astype(np.float32))
            elif column.kind == "boolean":
                found.append((entries[i : i + 1] != 0).astype(np.float32))
            else:
                found.append(((entries[i : i + 1] - column.mean) / column.deviation).astype(np.float32))
        return xp.concatenate(found)

    def decode(self, action: Any, xp: Any) -> Any:
        """Return the environment's action for one of the log's. `xp`: as in `encode`."""
        space: Any = self.action
        if isinstance(space, gymnasium.spaces.Box):
            moved = xp.reshape(xp.asarray(action, space.dtype), space.shape)
            return xp.clip(moved, xp.asarray(space.low), xp.asarray(space.high))
        if self.columns is None:
            return action
        codes: Any = action
        if self.columns.joint and len(self.choices) > 1:
            codes = xp.unravel_index(action, tuple(self.columns.counts))
        elif len(self.choices) == 1:
            codes = [action]
        found = [xp.asarray(choice)[codes[i]] for i, choice in enumerate(self.choices)]
        if isinstance(space, gymnasium.spaces.Discrete):
            return found[0]
        return xp.reshape(xp.stack(found), space.shape)


def is_whole_name(name: str) -> bool:
    """Return whether a name is a whole number."""
    try:
        return float(name).is_integer()
    except (ValueError, OverflowError):
        return False


@functools.lru_cache(maxsize=64)
def log_view(log: str, inside: str, name: str) -> LogView:
    """Return the view of an environment whose spaces are given as a JSON list of both."""
    observation, action = (spaces.from_json(space) for space in json.loads(inside))
    return LogView(log, observation, action, name)
