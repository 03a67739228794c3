"""Trackers: thin extras that also write the curve elsewhere. The run's own metrics.jsonl stays the source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from forage.core.errors import ForageError, nearest


class Tracker(Protocol):
    def write(self, row: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


class TensorBoard:
    """Writes each member's curve, and their mean, as TensorBoard events under RUN/tensorboard.

    A run that goes on (`again`) tells TensorBoard to forget all that it has, and is told everything anew: a kill may
    have left points that are played again, and lost others on their way to the disk.
    """

    def __init__(self, directory: Path, again: bool = False):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise ForageError("TensorBoard needs an extra: pip install 'forage-rl[tensorboard]'.") from None
        folder = directory / "tensorboard"
        # Files are read in the order of their names, which hold whole seconds: one of the same second would be
        # written over.
        suffix = f".{len(list(folder.glob('*')))}"
        self.writer = SummaryWriter(str(folder), purge_step=0 if again else None, filename_suffix=suffix)

    def write(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if value is None or name == "steps":  # every number has its step beside it
                continue
            if not isinstance(value, list):
                self.writer.add_scalar(f"run/{name}", value, row["steps"])
                continue
            numbers = [np.nan if v is None else v for v in value]
            if np.isfinite(numbers).any():
                self.writer.add_scalar(name, float(np.nanmean(numbers)), row["steps"])
            if len(numbers) > 1:
                for member, number in enumerate(numbers):
                    if np.isfinite(number):
                        self.writer.add_scalar(f"{name}/{member}", number, row["steps"])

    def close(self) -> None:
        self.writer.close()


TRACKERS = {"tensorboard": TensorBoard}


def check_trackers(names: Sequence[str]) -> None:
    """Raises `ForageError` for a name that is no tracker's."""
    for name in names:
        if name not in TRACKERS:
            raise ForageError(f"Unknown tracker {name!r}{nearest(name, TRACKERS)}")


def open_trackers(names: Sequence[str], directory: Path, again: bool = False) -> list[Tracker]:
    """Opens the trackers called `names`, `again` for a run that goes on."""
    return [TRACKERS[name](directory, again) for name in names]
