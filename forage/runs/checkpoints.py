"""A run's checkpoints: the newest, and the whole one before it."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from forage.core import checkpoint
from forage.core.types import ForageError
from forage.loop.runner import Runner
from forage.runs.display import Progress
from forage.runs.run import Run

SHARE = 20
"""Of the time, saving takes at most one part in so many."""


class Interval:
    """Says when a run saves: before training that is older than some seconds by the wall clock would be lost.

    The clock begins with the first training that no checkpoint holds, and goes on while the run is evaluated or a
    callback works.
    """

    def __init__(self, seconds: float, now: float):
        self.seconds, self.saved, self.cost = seconds, now, 0.0
        self.since: float | None = None  # when the training began that no checkpoint holds; `None` without any

    def train(self, now: float) -> None:
        """Note that training goes on."""
        if self.since is None:
            self.since = now

    def save(self, began: float, ended: float, whole: bool) -> None:
        """Note that a checkpoint was written; unless it is `whole`, the next is tried as late as after a whole one."""
        self.saved, self.cost = ended, ended - began
        self.since = None if whole else ended

    def due(self, now: float, ahead: float = 0.0) -> bool:
        """Return whether to save now, where the next chance comes `ahead` seconds later."""
        if self.since is None:
            return False
        then = now + ahead
        return then - self.since > self.seconds and then - self.saved >= SHARE * self.cost


def is_full(error: ForageError) -> bool:
    """Return whether something could not be saved for want of room."""
    return isinstance(cause := error.__cause__, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)


OURS = re.compile(r"\d{12,}\.npz")
"""What checkpoints are called; other files in their folder are left alone."""


class Checkpoints:
    """Writes and reads the state of a runner in a run's directory."""

    def __init__(self, directory: Path, runner: Runner, display: Progress):
        self.directory, self.runner, self.display = directory, runner, display
        self.kept: list[Path] = []  # oldest first
        self.steps: int | None = None  # at which the newest was made
        self.seconds = 0.0  # in the loop, when that was

    def save(self, header: dict[str, Any]) -> None:
        """Write a checkpoint and the agents. Raise `NotFinite` if something is not, `ForageError` without room."""
        path = self.directory / "checkpoints" / f"{header['steps']:012d}.npz"
        self.with_room(lambda: self.runner.save(path, header))
        self.steps, self.seconds = header["steps"], header["seconds"]
        # This one and the one before stay. Names do not decide: one that was found damaged may name a later step.
        self.kept = [*(kept for kept in self.kept if kept != path), path][-2:]
        self.with_room(lambda: self._write_agents(header))  # what was looked at
        for other in path.parent.glob("*.npz"):
            if other not in self.kept and OURS.fullmatch(other.name):
                other.unlink()

    def _write_agents(self, header: dict[str, Any]) -> None:
        checkpoint.save(self.directory / "agent.npz", self.runner.agent_states(), header)

    def with_room(self, write: Callable[[], None]) -> None:
        """Write a file. On a full disk all checkpoints but the newest whole one make room for it."""
        try:
            write()
        except ForageError as error:
            older = [path for path in (self.directory / "checkpoints").glob("*.npz") if path not in self.kept[-1:]]
            if not (is_full(error) and self.kept and older):
                raise
            for path in older:
                path.unlink()
            self.kept = self.kept[-1:]
            write()

    def save_agents(self, header: dict[str, Any]) -> str:
        """Write the agents alone, where a disk has no room for a checkpoint. Return what is kept, in a sentence.

        The only whole checkpoint makes room for them where there is no other way. Return nothing where that does not
        help either, or nothing was saved before.
        """
        if not self.kept or self.steps in (None, header["steps"]):
            return ""
        saved = f"The agents of step {header['steps']:,} are saved in {self.directory / 'agent.npz'}"
        try:
            self._write_agents(header)
            return f"{saved}, and what resuming goes on from is of step {self.steps:,}."
        except ForageError as error:
            [*_, only] = self.kept
            leaves = jax.tree.leaves(self.runner.agent_states())
            need = sum(leaf.size * leaf.dtype.itemsize + 1024 for leaf in leaves)
            free = shutil.disk_usage(self.directory).free
            if not is_full(error) or not free < need <= free + only.stat().st_size:
                return ""
        only.unlink()
        self.kept, before, self.steps = [], self.steps, None
        self._write_agents(header)
        return f"{saved}; there was room for them only without the checkpoint of step {before:,}, so resuming is over."

    def load(self, run: Run) -> dict[str, Any] | None:
        """Load the newest whole checkpoint and return its header, `None` if there was none yet. Change no file.

        Raise `ForageError` if there is no whole one, or none is left.
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
