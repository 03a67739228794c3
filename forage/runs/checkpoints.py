"""A run's checkpoints: the newest with the complete one before it, and the agents that it keeps besides."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from forage.config.run_config import RunConfig
from forage.config.saved import KEPT, agent_states
from forage.core import checkpoint
from forage.core.types import ForageError
from forage.evaluation.statistics import by_setting
from forage.loop.runner import Runner
from forage.runs.display import Progress
from forage.runs.run import Run

SHARE = 20
"""Saving takes at most 1 / `SHARE` of the time."""


class Interval:
    """The decision when to save: before more than some seconds of training, by the wall clock, could be lost.

    The clock starts with the first training that no checkpoint holds, and runs while the run is evaluated or a callback
    works.
    """

    def __init__(self, seconds: float, now: float):
        self.seconds, self.saved, self.cost = seconds, now, 0.0
        self.since: float | None = None  # the start of the training that no checkpoint holds; `None` without any

    def train(self, now: float) -> None:
        """Note that training continues."""
        if self.since is None:
            self.since = now

    def save(self, began: float, ended: float, whole: bool) -> None:
        """Note that a checkpoint was written. If it is not `whole`, the next one is tried after as long as after a
        whole one.
        """
        self.saved, self.cost = ended, ended - began
        self.since = None if whole else ended

    def due(self, now: float, ahead: float = 0.0) -> bool:
        """Return whether to save now, given that the next chance comes `ahead` seconds later."""
        if self.since is None:
            return False
        then = now + ahead
        return then - self.since > self.seconds and then - self.saved >= SHARE * self.cost


def is_full(error: ForageError) -> bool:
    """Return whether saving failed because the disk is full."""
    return isinstance(cause := error.__cause__, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)


OURS = re.compile(r"\d{12,}\.npz")
"""The names of checkpoints; other files in their folder are left alone."""


class Checkpoints:
    """Writes and reads the state of a runner in a run's directory."""

    def __init__(self, directory: Path, runner: Runner, display: Progress):
        self.directory, self.runner, self.display = directory, runner, display
        self.kept: list[Path] = []  # oldest first
        self.steps: int | None = None  # at which the newest was made
        self.seconds = 0.0  # in the loop, at that time

    def save(self, header: dict[str, Any]) -> None:
        """Write a checkpoint and the agents. Raise `NotFinite` if a number is not finite, `ForageError` if the disk is
        full.
        """
        path = self.directory / "checkpoints" / f"{header['steps']:012d}.npz"
        self.with_room(lambda: self.runner.save(path, header))
        self.steps, self.seconds = header["steps"], header["seconds"]
        # Keep this one and the one before, whatever their names: a damaged one may name a later step.
        self.kept = [*(kept for kept in self.kept if kept != path), path][-2:]
        self.with_room(lambda: self._write_agents(header))  # the agents that were checked
        for other in path.parent.glob("*.npz"):
            if other not in self.kept and OURS.fullmatch(other.name):
                other.unlink()

    def _write_agents(self, header: dict[str, Any]) -> None:
        checkpoint.save_tree(self.directory / "agent.npz", self.runner.agent_states(), header)

    def with_room(self, write: Callable[[], None]) -> None:
        """Write a file. If the disk is full, delete all checkpoints but the newest whole one and try again."""
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
        """Write the agents alone when the disk has no room for a checkpoint. Return a sentence about the files kept.

        If need be, the only whole checkpoint is deleted to make room for them. Return an empty text if even that does
        not help, or if nothing was saved before.
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
        """Load the newest whole checkpoint and return its header; `None` if there is none yet. Change no file.

        Raise `ForageError` if all checkpoints are damaged or gone.
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
        """Reload the newest checkpoint, and train again up to a step between it and now."""
        self.runner.load(self.kept[-1])
        self.runner.advance((steps - self.runner.steps) // self.runner.steps_per_iteration)


def check_keeping(
    stop_at: float | None, keep: str | None, keep_every: int | None, evaluation_every: int | None
) -> None:
    """Raise `ForageError` for options that no run can follow."""
    if keep not in (None, "best"):
        raise ForageError(f"A run can keep the best of its evaluations (best), not {keep!r}.")
    if keep_every is not None and keep_every < 1:
        raise ForageError(f"Steps from one kept checkpoint to the next are 1 or more, not {keep_every:,}.")
    if stop_at is not None and stop_at != stop_at:
        raise ForageError("A run stops at a score that is a number, not nan.")
    for option, given in (("stop_at", stop_at), ("keep best", keep)):
        if given is not None and evaluation_every is None:
            raise ForageError(
                f"--{option.replace('_', '-')} goes by evaluations during training; say how often with "
                f"--evaluation-every N."
            )


class Keeping:
    """The writer of the agents to keep. It also ends training after a sufficient evaluation."""

    def __init__(self, directory: Path, setup: RunConfig, runner: Runner, display: Progress):
        self.folder, self.setup, self.runner, self.display = directory / KEPT, setup, runner, display
        self.stop_at, self.keeps_best = setup.stop_at, setup.keep == "best"
        every = setup.keep_every
        self.every = every and -(-every // runner.steps_per_iteration)  # iterations
        self.best = self.read_best() if (self.folder / "best.npz").exists() else None

    def read_best(self) -> float | None:
        """Return the score of the best agents so far. Note a damaged file and return `None`."""
        path = self.folder / "best.npz"
        try:
            return float(checkpoint.read_header(path)["score"])
        except (ForageError, KeyError, TypeError, ValueError) as error:
            why = str(error) if isinstance(error, ForageError) else f"{path} does not say its score."
            self.display.note(f"{why} The best of the evaluations from here on takes its place.")
            return None

    def iterations_to_keep(self, done: int, count: int) -> int:
        """Return the number of the next `count` iterations that come before the next agents to keep."""
        return min(count, self.every - done % self.every) if self.every else count

    def reach(self, done: int) -> None:
        """Keep the agents after `done` iterations, if that is a multiple of `keep_every`."""
        if self.every and done % self.every == 0:
            self.write(f"{self.runner.steps:012d}", {})

    def keep_if_best(self, evaluation: dict[str, Any]) -> str:
        """Keep the agents of the best evaluation. Return the reason for stopping, empty to continue.

        In a sweep the best setting's score decides which agents are best; training stops once every setting is good
        enough.
        """
        scores = [one.value for one in by_setting(self.setup.members, evaluation["return"]).values()]
        if self.keeps_best and (self.best is None or max(scores) > self.best):
            self.best = max(scores)
            self.write("best", {"score": self.best})
        if self.stop_at is None or min(scores) < self.stop_at:
            return ""
        return f"an evaluation scored {min(scores):.6g}, and {self.stop_at:.6g} was to be reached"

    def write(self, name: str, header: dict[str, Any]) -> None:
        """Write the current agents. A full disk does not stop the run."""
        try:
            path = self.folder / f"{name}.npz"
            checkpoint.save_tree(path, self.runner.agent_states(), {"steps": self.runner.steps, **header})
        except ForageError as error:
            self.display.note(f"{error} Training goes on without this checkpoint.")


def take_kept(run: Run, setup: RunConfig, runner: Runner, kept: str | int) -> int:
    """Load the kept agents of a run into a runner, to evaluate them. Return the step that they are of."""
    states, header = agent_states(run.directory, setup.agent, setup.spec, len(setup.members), kept)
    runner.use_agents(states)
    return header["steps"]
