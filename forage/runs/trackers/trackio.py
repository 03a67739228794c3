"""Trackio: a run of the project `forage`, or TRACKIO_PROJECT, in a database of this machine (`trackio show`)."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import Any, ClassVar

from forage.runs.trackers.base import Tracker, flat_config, identity


class Trackio(Tracker):
    """A run of Trackio, named after the run's directory and a few letters of its id. A resumed run continues it."""

    package: ClassVar[str] = "trackio"

    def __init__(self, directory: Path, config: dict[str, Any], again: bool) -> None:
        import trackio

        own = identity(directory, "trackio", again)
        with contextlib.redirect_stdout(io.StringIO()):  # it prints a greeting
            self.run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT", "forage"),
                name=f"{directory.name}-{own[:6]}",
                config=flat_config(config),
                resume="allow",
            )

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        """Log the numbers at their step."""
        self.run.log(dict(numbers), step=steps)

    def close(self) -> None:
        """Wait for pending writes."""
        import trackio

        with contextlib.redirect_stdout(io.StringIO()):
            trackio.finish()
