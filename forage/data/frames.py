"""Data sets from arrays and data frames in memory, to save and learn from."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from forage.core.types import ForageError, Spec
from forage.data import formats
from forage.data.formats import flat
from forage.data.formats.reading import Reading, parse_reading
from forage.data.logged import Transitions
from forage.data.tables.rows import read_table

MOST_CHOICES = 10_000  # of a whole number of an action
Data = tuple[Transitions, dict[str, Any]]


def from_arrays(
    observations: Any,
    actions: Any,
    rewards: Any,
    terminals: Any,
    timeouts: Any = None,
    next_observations: Any = None,
    behaviour_probabilities: Any = None,
    name: str = "arrays",
) -> Data:
    """Return the data set of arrays with a row for each step, and its header; `forage.data.save` writes both.

    `terminals`: true where the task was over; `timeouts`: true where only time ran out. The last row counts as such,
    too. Without `next_observations` a row leads to the next one of its episode. Whole numbers are choices from 0, and
    floats are bounded by those of the data. `name` stands for the environment.

    >>> log, header = forage.data.from_arrays(obs, act, rew, done, late)  # doctest: +SKIP
    >>> forage.data.save("log.npz", log, header)  # doctest: +SKIP
    """
    given = {"observations": observations, "actions": actions, "rewards": rewards, "terminals": terminals}
    given |= {"timeouts": timeouts, "next_observations": next_observations}
    given |= {"behaviour_probabilities": behaviour_probabilities}
    arrays = {key: np.asarray(value) for key, value in given.items() if value is not None}
    for key, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise ForageError(f"{key} are an array of numbers, not of {array.dtype}.")
        if array.ndim == 0 or len(array) != len(arrays["rewards"]) or len(array) == 0:
            shown = ", ".join(f"{k} {a.shape}" for k, a in arrays.items())
            raise ForageError(f"Arrays have a row for each step, and as many of them; they have {shown}.")
    observation, action = arrays["observations"], arrays["actions"]
    observation = observation[:, None] if observation.ndim == 1 else observation
    spec = Spec(name, space_of_observations(observation), space_of_actions(action))
    if action.dtype.kind in "iub" and action.ndim > 1 and action.shape[1:] == (1,):
        action = action[:, 0]
    following = arrays.get("next_observations")
    rows = flat.FlatRows(
        observation,
        action,
        arrays["rewards"],
        arrays["terminals"],
        arrays.get("timeouts", np.zeros(len(action), bool)),
        None,
        following[:, None] if following is not None and following.ndim == 1 else following,
        arrays.get("behaviour_probabilities"),
        unfollowed=True,
    )
    data, left = flat.transitions(Path(name), rows, Reading(lossy=True), spec)
    header = formats.about(data, spec, Path(name), "arrays")
    return data, {**{k: v for k, v in header.items() if k != "environment"}, "left_out": left}


def space_of_observations(array: np.ndarray) -> gymnasium.spaces.Space[Any]:
    """Return the space of observations: pictures of bytes, or numbers without bounds."""
    if array.dtype == np.uint8 and array.ndim >= 3:
        return gymnasium.spaces.Box(0, 255, array.shape[1:], np.uint8)
    return gymnasium.spaces.Box(-np.inf, np.inf, array.shape[1:], np.float32)


def space_of_actions(array: np.ndarray) -> gymnasium.spaces.Space[Any]:
    """Return the space of actions: choices of whole numbers, or numbers with the bounds of the data."""
    if array.dtype.kind in "iub":
        flat_array = array.reshape(len(array), -1).astype(np.int64)
        if flat_array.min() < 0 or flat_array.max() >= MOST_CHOICES:
            raise ForageError(
                f"Actions of whole numbers are choices from 0 to at most {MOST_CHOICES - 1:,}, and these go from "
                f"{flat_array.min():,} to {flat_array.max():,}; give floats for quantities."
            )
        counts = flat_array.max(0) + 1
        if flat_array.shape[1] == 1:
            return gymnasium.spaces.Discrete(int(counts[0]))
        return gymnasium.spaces.MultiDiscrete(counts)
    array = array[:, None] if array.ndim == 1 else array
    if not np.isfinite(array).all():
        raise ForageError(
            f"actions are not finite in row {int((~np.isfinite(array)).reshape(len(array), -1).any(1).argmax())}."
        )
    low, high = array.min(0).astype(np.float32), array.max(0).astype(np.float32)
    return gymnasium.spaces.Box(low, np.where(high > low, high, low + 1), dtype=np.float32)


def from_frame(frame: Any, name: str = "frame", **words: Any) -> Data:
    """Return the data set of a pandas or polars frame, an Arrow table or a dictionary of columns, and its header.

    `words`: the roles of columns, as in the description of a table: `observation`, `action`, `reward`, `terminated`,
    `truncated`, `episode`, `time`, and `columns` with more about each.

    >>> log, header = forage.data.from_frame(frame, observation=["x"], action="push", reward="paid", episode="run")
    ... # doctest: +SKIP
    """
    arrow, parquet = formats.package("pyarrow", "Frames"), formats.package("pyarrow.parquet", "Frames")
    frame = arrow_of_polars(frame)
    try:
        table = arrow.table(dict(frame) if isinstance(frame, Mapping) else frame)
    except (arrow.ArrowException, TypeError, ValueError) as error:
        raise ForageError(
            f"A frame is one of pandas or polars, an Arrow table or a dictionary of columns, not "
            f"{type(frame).__name__} ({str(error).splitlines()[0].rstrip('.')})."
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.parquet"
        parquet.write_table(table, path)
        reading = parse_reading(
            {key: value for key, value in words.items() if value is not None}, "forage.data.from_frame"
        )
        try:
            found = read_table(path, reading)
            data = found.transitions()
        except ForageError as error:
            raise ForageError(in_python(str(error).replace(str(path), f"The {name}"))) from None
    spec = flat.spec_json(found.spec)
    header = formats.about(data, spec, Path(name), "frame")
    return data, header | {"left_out": found.omissions}


def in_python(sentence: str) -> str:
    """Return a sentence about a table with the arguments of `from_frame` in place of a description and commands."""
    sentence = re.sub(r"(; forage data describe .* writes a proposal to \S+\.toml), or say --", "; say ", sentence)
    sentence = re.sub(r"; forage data describe [^;]* proposes it", "", sentence)
    sentence = re.sub(
        r' in \S+\.toml, as in \[columns\.(.+)\] missing = "last"',
        r', as in columns={"\1": {"missing": "last"}}',
        sentence,
    )
    return re.sub(
        r'missing = "cut" or a value in \[columns\.(.+)\] of \S+\.toml',
        r'columns={"\1": {"missing": "cut"}} or a value',
        sentence,
    )


def arrow_of_polars(frame: Any) -> Any:
    """Return a frame of polars as an Arrow table with plain texts, which Parquet can hold, and any other unchanged."""
    polars: Any = sys.modules.get("polars")  # where nobody has imported it, there is no frame of it
    if polars is None or not isinstance(frame, polars.DataFrame | polars.LazyFrame):
        return frame
    whole = frame.collect() if isinstance(frame, polars.LazyFrame) else frame
    return whole.to_arrow(compat_level=polars.CompatLevel.oldest())


def save(file: str | os.PathLike[str], data: Transitions, header: Mapping[str, Any], to: str | None = None) -> None:
    """Write a data set and its header in the format `to`, by default that of the file's suffix."""
    path = Path(file)
    formats.write_data(path, data, header, formats.target_kind(path, to))
