"""The contract of a tracker, and the numbers of a run as trackers take them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np


class Tracker(Protocol):
    """A destination of a run's numbers during training. A tracker of the user needs only `write` and `close`.

    Each number has a name. A number of every seed is present as the mean (`return`) and, with several seeds, for each
    (`return/0`); evaluations are `evaluation/return`, numbers of the whole run `run/steps_per_second`.
    """

    package: ClassVar[str] = ""
    """The module it needs; the extra with the tracker's name installs it."""

    rewrites: ClassVar[bool] = False
    """Whether a resumed run starts it over and sends all points again; otherwise it keeps its points."""

    def __init__(self, directory: Path, config: dict[str, Any], again: bool) -> None:
        """Start for the run in `directory`, with its whole configuration; `again` if the run is resumed."""
        return  # otherwise mypy takes it to be abstract

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        """Write the numbers of a point of the curve, or of an evaluation."""
        raise NotImplementedError

    def finish(self, steps: int, numbers: dict[str, float]) -> None:
        """Write the final `score` and the ends of its interval, `score/low` and `score/high`."""
        self.write(steps, numbers)

    def close(self) -> None:
        """Close the tracker, whether the run is over or was stopped."""
        return


def flatten_row(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a row by name: means over seeds, and with several seeds, each of them."""
    numbers: dict[str, float] = {}
    for name, value in row.items():
        if name == "steps":  # every number is written with its step
            continue
        if not isinstance(value, list):
            numbers |= {} if value is None else {f"run/{name}": float(value)}
            continue
        each = np.array([np.nan if one is None else one for one in value], float)
        if np.isfinite(each).any():
            numbers[name] = float(np.nanmean(each))
        if len(each) > 1:
            numbers |= {f"{name}/{member}": float(one) for member, one in enumerate(each) if np.isfinite(one)}
    return numbers


def final(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the score of a run, or of each setting of a sweep, with the interval if there is one."""
    numbers: dict[str, float] = {}
    for one in result.get("settings") or [result]:
        name = f"score/{one['setting']}" if "setting" in one else "score"
        found = {name: one.get("score")}
        found |= dict(zip((f"{name}/low", f"{name}/high"), one.get("interval") or (), strict=False))
        numbers |= {key: float(value) for key, value in found.items() if value is not None and np.isfinite(value)}
    return numbers


def flat_config(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a configuration in one level: `agent.learning_rate`."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        found |= flat_config(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def identity(directory: Path, name: str, again: bool, new: str | None = None) -> str:
    """Return the run's id in a tracker's service: the stored one if `again`, or a new one."""
    path = directory / f"{name}.id"
    if again and path.exists():
        return path.read_text().strip()
    new = new or uuid.uuid4().hex[:12]
    path.write_text(new + "\n")
    return new
