"""The contract of a tracker, and the numbers of a run as trackers take them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np


class Tracker(Protocol):
    """A place that the numbers of a run go to while it learns. `write` and `close` are enough for one's own.

    Each number has a name. One that every seed has is there as its mean (`return`) and, of several seeds, for each
    (`return/0`); evaluations are `evaluation/return`, what the whole run has is `run/steps_per_second`.
    """

    package: ClassVar[str] = ""
    """The module it needs, which the extra of the tracker's name installs."""

    rewrites: ClassVar[bool] = False
    """Whether a resumed run begins it anew and tells it everything again; otherwise it keeps what it has."""

    def __init__(self, directory: Path, config: dict[str, Any], again: bool) -> None:
        """Begin for the run in `directory`, with its whole configuration; `again` for one that is resumed."""
        return  # or mypy would take it to be abstract

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        """Take the numbers of a point of the curve, or of an evaluation."""
        raise NotImplementedError

    def finish(self, steps: int, numbers: dict[str, float]) -> None:
        """Take the final `score` and the ends of its interval, `score/low` and `score/high`."""
        self.write(steps, numbers)

    def close(self) -> None:
        """End, whether the run is over or was stopped."""
        return


def flat(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a row by name: means over seeds, and each seed's where there are several."""
    numbers: dict[str, float] = {}
    for name, value in row.items():
        if name == "steps":  # every number has its step beside it
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
    """Return the score of a run, or of each setting of a sweep, with its interval where there is one."""
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
    """Return the id under which a tracker's service knows the run: the one it began with, or a new one."""
    path = directory / f"{name}.id"
    if again and path.exists():
        return path.read_text().strip()
    new = new or uuid.uuid4().hex[:12]
    path.write_text(new + "\n")
    return new
