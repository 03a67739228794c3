"""A run's checkpoints: the newest, and the whole one before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forage.core import checkpoint
from forage.core.types import ForageError
from forage.loop.runner import Runner
from forage.runs.display import Progress
from forage.runs.run import Run


class Checkpoints:
    """Writes and reads the state of a runner in a run's directory."""

    def __init__(self, directory: Path, runner: Runner, display: Progress):
        self.directory, self.runner, self.display = directory, runner, display
        self.kept: list[Path] = []  # oldest first
        self.steps: int | None = None  # at which the newest was made
        self.seconds = 0.0  # in the loop, when that was

    def save(self, header: dict[str, Any]) -> None:
        """Write a checkpoint and the agents. Raise `NotFinite` where something is not, `ForageError` without room."""
        path = self.directory / "checkpoints" / f"{header['steps']:012d}.npz"
        self.runner.save(path, header)
        checkpoint.save(self.directory / "agent.npz", self.runner.agent_states(), header)  # of what was looked at
        self.steps, self.seconds = header["steps"], header["seconds"]
        # This one and the one before stay. Names do not decide: one that was found damaged may name a later step.
        self.kept = [*(kept for kept in self.kept if kept != path), path][-2:]
        for other in path.parent.glob("*.npz"):
            if other not in self.kept:
                other.unlink()

    def load(self, run: Run) -> dict[str, Any] | None:
        """Load the newest whole checkpoint and return its header, `None` where there was none yet. Change no file.

        Raise `ForageError` where there is no whole one, or none is left.
        """
        problems: list[str] = []
        for path in reversed(run.checkpoints):
            try:
                header = self.runner.load(path)
            except ForageError as error:
                problems.append(str(error))
                continue
            self.kept, self.steps, self.seconds = [path], header["steps"], header["seconds"]
            for problem in problems:
                self.display.note(f"{problem} The one before it is whole.")
            return header
        if problems:
            raise ForageError(problems[0])
        if rows := run.rows:
            raise ForageError(
                f"{run.directory} has learned until step {rows[-1]['steps']:,}, and its checkpoints are gone; train "
                f"anew in another directory."
            )
        return None

    def rewind(self, steps: int) -> None:
        """Go back to a step between the newest checkpoint and now."""
        self.runner.load(self.kept[-1])
        self.runner.advance((steps - self.runner.steps) // self.runner.steps_per_iteration)
