"""Weights & Biases: a run of the project `forage`, or WANDB_PROJECT. WANDB_MODE=offline needs no account."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from forage.runs.trackers.base import Tracker, identity


class WandB(Tracker):
    """A run of Weights & Biases with environment steps as the x-axis; the score is in its summary.

    A resumed run continues under the same id. `wandb sync --append` joins the parts of one that was stopped offline.
    """

    package: ClassVar[str] = "wandb"

    def __init__(self, directory: Path, config: dict[str, Any], again: bool) -> None:
        import wandb

        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "forage"),
            name=directory.name,
            id=identity(directory, "wandb", again),
            resume="allow",
            dir=str(directory),
            config=config,
            # It would print into the display, and capture prints.
            settings=wandb.Settings(silent=True, console="off"),
        )
        self.run.define_metric("*", step_metric="steps")

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        """Log the numbers with their step."""
        self.run.log({"steps": steps} | numbers)

    def finish(self, steps: int, numbers: dict[str, float]) -> None:
        """Put the score into the summary."""
        self.run.summary.update(numbers)

    def close(self) -> None:
        """Wait for pending uploads."""
        self.run.finish()
