"""The agents that a run keeps besides its newest: those of the best evaluation, and those of every N steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forage.config.run_config import RunConfig
from forage.config.saved import KEPT, agent_states
from forage.core import checkpoint
from forage.core.types import ForageError
from forage.loop.runner import Runner
from forage.runs.display import Progress
from forage.runs.run import Run, by_setting


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
            checkpoint.save(path, self.runner.agent_states(), {"steps": self.runner.steps, **header})
        except ForageError as error:
            self.display.note(f"{error} Training goes on without this checkpoint.")


def take_kept(run: Run, setup: RunConfig, runner: Runner, kept: str | int) -> int:
    """Load the kept agents of a run into a runner, to evaluate them. Return the step that they are of."""
    states, header = agent_states(run.directory, setup.agent, setup.spec, len(setup.members), kept)
    runner.use_agents(states)
    return header["steps"]
