"""A sitting of a run: the loop that trains, shows, records and saves, from a beginning or a checkpoint to an end."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from forage import checkpoint, progress
from forage.evaluation.plots import heat_map
from forage.evaluation.statistics import score
from forage.host import HostRoad
from forage.learner import Report
from forage.points import Rows, Totals, read_rows, to_float
from forage.registry import part_name
from forage.run import Run, draw_curve, write_json
from forage.setup import Road, Setup
from forage.types import ForageError

POINTS = 100  # on the curve


class Session:
    """One sitting of a run: from its beginning or a checkpoint to its end or an interruption."""

    def __init__(
        self,
        directory: Path,
        setup: Setup,
        road: Road,
        settings: dict[str, Any],
        display: progress.Progress,
        trackers: Sequence[Any] = (),
    ):
        self.directory, self.setup, self.road, self.settings = directory, setup, road, settings
        self.display, self.trackers = display, trackers
        self.iterations = -(-setup.steps // road.steps_per_iteration)
        self.every = max(1, self.iterations // POINTS)  # iterations between points of the curve
        every = settings.get("evaluation_every")
        self.evaluate_every = every and -(-every // road.steps_per_iteration)  # iterations between evaluations
        self.rows, self.evaluations = Rows(directory / "metrics.jsonl"), Rows(directory / "evaluations.jsonl")
        self.totals = Totals()  # since the last point
        self.earlier = 0.0  # seconds of earlier sittings
        self.started: float | None = None  # when this one's loop began
        self.interrupted: str | None = None
        self.saved_at: int | None = None
        self.kept: list[Path] = []  # checkpoints, oldest first

    @property
    def seconds(self) -> float:
        """Spent in the loop, in earlier sittings too."""
        return self.earlier + (0.0 if self.started is None else time.monotonic() - self.started)

    def run(self) -> Run:
        """Trains to the end; from the beginning unless a checkpoint was restored."""
        self.display.start(self.title(), self.introduction(), self.iterations * self.road.steps_per_iteration)
        previous = self.catch_signals()
        try:
            if self.saved_at is None:
                self.road.begin()
                self.save()
            self.road.prepare(self.settings["evaluation_episodes"], step_limit(self.setup))
            if not self.road.exact:
                self.display.note(f"{self.setup.name} cannot be saved exactly: after a stop new episodes begin.")
            self.loop()
            result, lines = self.conclude()
        except Interrupted:
            raise
        except ForageError as error:
            raise ForageError(f"{str(error).rstrip('.')}.{self.what_is_kept()}") from error
        except jax.errors.JaxRuntimeError as error:
            raise ForageError(f"{device_failure(error, self.road.steps)}{self.what_is_kept()}") from error
        except BrokenPipeError:  # nobody reads what is shown any more
            raise
        except OSError as error:
            what = f"{error.strerror or error}: {error.filename or self.directory}"
            raise ForageError(f"The run could not write its files ({what}).{self.what_is_kept()}") from error
        finally:
            self.display.stop()
            for number, handler in previous.items():
                signal.signal(number, handler)
            for tracker in self.trackers:
                tracker.close()
            if isinstance(self.road, HostRoad):
                self.road.close()
        self.display.finish(result, lines)
        return Run(self.directory)

    def title(self) -> str:
        members = len(self.setup.members)
        return f"{part_name(self.setup.agent)} on {self.setup.name}, {members} seed{'s' if members > 1 else ''}"

    def introduction(self) -> list[str]:
        lines = [f"in {self.directory}"]
        if wrapped := self.setup.environment_config.get("wrap"):
            lines.append(f"{self.setup.name} in {', '.join(wrapped)}")
        if self.setup.why:
            lines.append(f"{part_name(self.setup.agent)} because {self.setup.why}")
        return lines

    def loop(self) -> None:
        spi = self.road.steps_per_iteration
        done = self.road.steps // spi
        row_from, compiled_at, batch = done, None, 1
        if self.evaluate_every and not read_rows(self.evaluations.path):
            self.evaluate(0)
        self.started = last_save = last_row = learning = time.monotonic()
        while done < self.iterations:
            mark = min(self.iterations, (done // self.every + 1) * self.every)
            count = min(batch, mark - done)
            if self.evaluate_every:
                count = min(count, self.evaluate_every - done % self.evaluate_every)
            start, before = time.monotonic(), self.road.steps
            report = self.advance(count)
            self.check(report, before)
            now = time.monotonic()
            done += count
            if compiled_at is None:  # the first call compiles, which says nothing about speed
                compiled_at, learning, last_row, row_from = done, now, now, done
            else:
                # A report about every second, and never one whose length depends on the clock alone in its results.
                batch = max(1, min(self.every, int(count * 1.0 / max(now - start, 1e-3)) or 1, 4 * batch))
            self.totals.add(report)
            timed = len(self.setup.members) * (done - row_from) * spi
            speed = round(timed / max(now - last_row, 1e-9), 1) if timed else None
            row = {"steps": self.road.steps, "seconds": round(self.seconds, 3), "steps_per_second": speed}
            row |= self.totals.point(self.setup.spec.reward_names)
            done_here = done - compiled_at
            left = (now - learning) / done_here * (self.iterations - done) if done_here else float("nan")
            self.display.update(row, left)
            if done == mark:
                self.write_row(row)
                self.totals, row_from, last_row = Totals(), done, now
            if self.evaluate_every and done % self.evaluate_every == 0:
                took = self.evaluate(done // self.evaluate_every)
                # The clock of training stands still meanwhile.
                self.started, learning, last_row = self.started + took, learning + took, last_row + took
            stopping = self.interrupted is not None
            if stopping or done == self.iterations or now - last_save > self.settings["checkpoint_seconds"]:
                self.save()
                # Saving may take at most a twentieth of the time.
                last_save = time.monotonic() + 20 * (time.monotonic() - now)
            if stopping:
                raise Interrupted(
                    f"Stopped by {self.interrupted} at step {self.road.steps:,}. Continue with: forage resume "
                    f"{self.directory}"
                )
        self.earlier, self.started = self.seconds, None

    def evaluate(self, number: int) -> float:
        """Plays episodes apart from training, others at each point, and writes what they brought. Returns seconds."""
        began = time.monotonic()
        found = evaluate_road(self.road, self.setup, self.settings["evaluation_episodes"], 500_009 + number)
        self.append(self.evaluations, {"steps": self.road.steps, "return": found["return"]})
        values = [value for value in found["return"] if value is not None]
        if values:
            self.display.note(f"  {self.road.steps:>12,} steps   evaluated: return {score(np.array(values))}")
        return time.monotonic() - began

    def advance(self, count: int) -> Report:
        try:
            return self.road.advance(count)
        except ForageError:
            # An environment failed, and the agent is whole. Without progress the checkpoint there is says more.
            if self.road.steps != self.saved_at:
                self.save(quietly=True)
            raise

    def check(self, report: Report, before: int) -> None:
        """Stops when something became NaN, before it is saved."""
        members = self.setup.members
        where = f"between steps {before:,} and {self.road.steps:,}"
        for flags, what, advice in (
            (report.environment_finite, f"{self.setup.name} returned NaN or infinity", "mend the environment"),
            (report.agent_finite, "The agent's parameters became NaN", "a smaller learning rate often helps"),
        ):
            bad = [i for i, ok in enumerate(np.atleast_1d(flags)) if not ok]
            if bad:
                raise ForageError(f"{what} {where} with seed {members[bad[0]]['seed']}; {advice}.")

    def append(self, rows: Rows, row: dict[str, Any]) -> None:
        try:
            rows.append(row)
        except ForageError as error:
            if len(rows.waiting) == 1:  # said once
                self.display.note(f"{error} Training goes on and will try again.")

    def write_row(self, row: dict[str, Any]) -> None:
        self.append(self.rows, row)
        self.display.row(row)
        for tracker in self.trackers:
            tracker.write(row)

    def save(self, quietly: bool = False) -> None:
        """Writes a checkpoint and the agents. A full disk does not stop the run while it can go on and try again."""
        steps = self.road.steps
        header = {"steps": steps, "seconds": self.seconds, "since": self.totals.plain()}
        path = self.directory / "checkpoints" / f"{steps:012d}.npz"
        try:
            for rows in (self.rows, self.evaluations):
                rows.flush(durable=True)  # a checkpoint never knows of points that the curve lacks
            checkpoint.save(path, self.road.state, header)
            checkpoint.save(self.directory / "agent.npz", self.road.agent_states(), header)
        except ForageError as error:
            last = steps >= self.iterations * self.road.steps_per_iteration
            if quietly or (self.saved_at is not None and not last and self.interrupted is None):
                self.display.note(f"{error} Training goes on and will try again.")
                return
            raise
        self.saved_at = steps
        # This one and the one before stay. Names do not decide: one that was found damaged may name a later step.
        self.kept = [*(kept for kept in self.kept if kept != path), path][-2:]
        for other in path.parent.glob("*.npz"):
            if other not in self.kept:
                other.unlink()

    def restore(self, run: Run) -> None:
        """Loads the newest whole checkpoint, and drops points of the curve after it.

        A run that was stopped before its first checkpoint is left to begin.
        """
        header = self.load(run)
        for rows in (self.rows, self.evaluations):
            rows.drop_after(-1 if header is None else header["steps"])
        if header is None:
            return
        self.saved_at, self.earlier, self.totals = header["steps"], header["seconds"], Totals(header["since"])

    def load(self, run: Run) -> dict[str, Any] | None:
        """Puts the newest whole checkpoint on the road and changes nothing on disk. `None` where there is none."""
        problems: list[str] = []
        for path in reversed(run.checkpoints):
            try:
                state, header = checkpoint.load(path, self.road.shapes())
            except ForageError as error:
                problems.append(str(error))
                continue
            self.road.restore(state, header["steps"])
            self.kept = [path]
            for problem in problems:
                self.display.note(f"{problem} The one before it is whole.")
            return header
        if problems:
            raise ForageError(problems[0])
        return None

    def what_is_kept(self) -> str:
        if self.saved_at is None:
            return ""
        return f" The run is kept as of step {self.saved_at:,} in {self.directory}."

    def catch_signals(self) -> dict[int, Any]:
        """The first Ctrl-C (or SIGTERM) saves and stops at the next report; a second one stops at once."""
        previous: dict[int, Any] = {}

        def handle(number: int, frame: Any) -> None:
            if self.interrupted is not None:
                raise KeyboardInterrupt
            self.interrupted = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name

        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                previous[number] = signal.signal(number, handle)
        except ValueError:  # not in the main thread: whoever started the thread handles signals
            pass
        return previous

    def conclude(self) -> tuple[dict[str, Any], list[str]]:
        """Evaluates, draws the curve, and says how it went."""
        seconds = self.seconds
        evaluation = evaluate_road(self.road, self.setup, self.settings["evaluation_episodes"])
        write_json(self.directory / "evaluation.json", evaluation)
        picture = draw_curve(Run(self.directory))
        where = self.write_visits()
        groups: dict[str, list[float]] = {}
        for member, value in zip(self.setup.members, evaluation["return"], strict=True):
            label = ", ".join(f"{k}={v:g}" for k, v in member.items() if k != "seed")
            groups.setdefault(label, []).append(value)
        episodes = evaluation["episodes"]
        lines = []
        for label, values in groups.items():
            what = f" with {label}" if label else ""
            lines.append(f"{part_name(self.setup.agent)} on {self.setup.name}{what}: return {score(np.array(values))}")
        speed = len(self.setup.members) * self.road.steps / max(seconds, 1e-9)
        lines += [
            f"  interquartile mean over seeds of {episodes} evaluation episodes each, 95 % interval",
            f"  {self.road.steps:,} steps a seed in {progress.duration(seconds)} "
            f"({speed:,.0f} steps/s, compiling included)",
            f"  curve {picture}" + (f", visits {where}" if where else ""),
            f"  watch it: forage watch {self.directory}",
        ]
        best = score(np.array(next(iter(groups.values()))))
        result = {
            "directory": str(self.directory),
            "agent": part_name(self.setup.agent),
            "environment": self.setup.name,
            "steps": self.road.steps,
            "seconds": round(seconds, 3),
            "score": best.value,
            "interval": None if best.low is None else [best.low, best.high],
            "seeds": best.seeds,
            "return": evaluation["return"],
        }
        return result, lines

    def write_visits(self) -> Path | None:
        """`visits.npy`, how often each member was at each place of the map, and its picture, where that is measured."""
        counts = self.road.visits
        if counts is None:
            return None
        with (self.directory / "visits.npy").open("wb") as file:
            np.save(file, counts)
        title = f"{Run(self.directory).title}: where it went"
        return heat_map(self.directory / "visits.png", counts.sum(0), title=title)


class Interrupted(ForageError):
    """A person stopped the run; all is saved."""


def step_limit(setup: Setup) -> int:
    """Steps after which an evaluation episode is cut, where the environment itself has no limit: Atari's."""
    return 27_000 if setup.spec.horizon is None else int(setup.spec.horizon)


def evaluate_road(road: Road, setup: Setup, episodes: int, seed: int = 1_000_003) -> dict[str, Any]:
    """Plays evaluation episodes, on random streams that training never uses. Returns what evaluation.json holds."""
    limit = step_limit(setup)
    returns, lengths = road.evaluate(episodes, limit, seed)
    returns, lengths = np.asarray(returns, float), np.asarray(lengths)
    evaluation: dict[str, Any] = {"steps": road.steps, "episodes": episodes, "members": setup.members}
    evaluation["actions"] = setup.evaluation_actions
    if returns.ndim > 2:
        for i, name in enumerate(setup.spec.reward_names):
            evaluation[f"return/{name}"] = to_float(returns[..., i].mean(1))
        returns = returns.sum(-1)
    evaluation["return"] = to_float(returns.mean(1))
    evaluation["episode_returns"] = returns.tolist()
    evaluation["episode_lengths"] = lengths.tolist()
    if setup.spec.horizon is None and (lengths >= limit).any():
        evaluation["note"] = f"{int((lengths >= limit).sum())} episodes were cut after {limit:,} steps"
    return evaluation


def device_failure(error: Exception, steps: int) -> str:
    """What JAX raised while a compiled program ran, in one sentence."""
    text = str(error)
    if "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
        return f"There was not enough memory after step {steps:,}; fewer seeds, a smaller memory or network takes less."
    last = text.strip().splitlines()[-1].strip() if text.strip() else type(error).__name__
    return f"A compiled part of the loop failed after step {steps:,}: {last.rstrip('.')}."
