"""A session of a run: the loop that trains, displays, records and saves, from its start or a checkpoint."""

from __future__ import annotations

import functools
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from forage.config.run_config import RunConfig
from forage.core import compiling, prng, streams
from forage.core.errors import InterruptedCompiling, RunInterrupted
from forage.core.records import printable, range_in
from forage.core.types import ForageError
from forage.evaluation.look import load_drawing
from forage.loop.learner import Report
from forage.loop.runner import Runner, Watch, sum_counts
from forage.loop.soundness import NotFinite, Unsound
from forage.runs import capacity
from forage.runs import display as progress
from forage.runs.callbacks import Callback, CallbackFailed, View
from forage.runs.checkpoints import Checkpoints, Interval, Keeping, is_full
from forage.runs.curve import (
    TEXTS_FILE,
    CurveRows,
    Totals,
    check_rewarded,
    columns,
    newest,
    quiet_since,
    read_rows,
    texts_row,
    to_float,
    token_speed,
)
from forage.runs.faults import Bounds, Finite
from forage.runs.run import Run, write_json
from forage.runs.scoring import (
    counting_sentences,
    evaluate_agents,
    return_range,
    said_if_long,
    score_agents,
    step_limit,
)
from forage.runs.starting import Inheritance, handover_record
from forage.runs.summary import conclude, conclude_unscored, device_failure, introduction

POINTS = 100  # on the curve


class Session:
    """One session of a run: from its start or a checkpoint to its end or an interruption."""

    def __init__(
        self,
        directory: Path,
        setup: RunConfig,
        runner: Runner,
        display: progress.Progress,
        trackers: Sequence[Any] = (),
        callbacks: Sequence[Callback] = (),
    ):
        self.directory, self.setup, self.runner = directory, setup, runner
        self.display, self.trackers, self.callbacks = display, trackers, callbacks
        self.episodes = setup.evaluation_episodes or runner.usual_episodes  # of each seed, for a score
        self.iterations = -(-setup.steps // runner.steps_per_iteration)
        self.every = max(1, self.iterations // POINTS)  # iterations between points of the curve
        every = setup.evaluation_every
        self.evaluate_every = every and -(-every // runner.steps_per_iteration)  # iterations between evaluations
        self.rows, self.evaluations = CurveRows(directory / "metrics.jsonl"), CurveRows(directory / "evaluations.jsonl")
        self.texts = CurveRows(directory / TEXTS_FILE)  # texts of the policy in evaluations, in a run on text
        self.totals = Totals()  # since the last point
        self.points: list[dict[str, Any]] = []  # of the curve, so far
        self.earlier = 0.0  # seconds of earlier sessions
        self.started: float | None = None  # when the loop of this session started
        self.sat_down = time.monotonic()  # likewise, by a clock that never stops
        self.interrupted: str | None = None
        self.stopped = ""  # the reason to end training before its last step
        self.said: list[str] = []  # further lines of the introduction
        self.begun: Callable[[], None] = lambda: None  # called after a new start, not after a resumption
        self.began_at: int | None = None  # the step at its start, if that was in this session
        self.newest: dict[str, Any] | None = None  # evaluation of this session
        self.within = return_range(setup, step_limit(setup))
        self.scoring_took = 0.0  # seconds of the episodes of the score
        self.asked = 0  # evaluations that callbacks requested
        self.watch = Watch()  # of the time outside training
        self.before: dict[str, float] = {}  # seconds of the runner at the end of compiling
        self.missed: set[str] = set()  # names of the environment's info that do not occur
        self.interval = Interval(setup.checkpoint_seconds, self.sat_down)  # between checkpoints
        self.evaluating = float("inf")  # seconds of the newest evaluation; unknown before the first
        self.calling = 0.0  # longest time of the callbacks in seconds
        self.checkpoints = Checkpoints(directory, runner, display)
        self.finite = Finite(setup, runner, self.checkpoints, display)
        self.bounds = Bounds(setup, runner, display)
        self.keeping = Keeping(directory, setup, runner, display)

    @property
    def seconds(self) -> float:
        """Return the seconds spent in the loop, including earlier sessions."""
        return self.earlier + (0.0 if self.started is None else time.monotonic() - self.started)

    @property
    def learned_nothing(self) -> bool:
        """Return whether the run is still at the step of its start, in this session."""
        return self.checkpoints.steps is None if self.began_at is None else self.runner.steps == self.began_at

    def stored_evaluation(self) -> dict[str, Any] | None:
        """Return the stored evaluation of a finished run, if it has enough episodes and the requested kind of
        actions.
        """
        found = Run(self.directory).evaluation
        if found is None or found.get("steps") != self.runner.steps:
            return None
        alike = self.setup.evaluation_actions in ("auto", found["actions"])
        return found if alike and found["episodes"] >= self.episodes else None

    def run(self) -> Run:
        """Train to the end, from the start unless a checkpoint was restored."""
        self.display.settings = self.setup.settings
        steps = self.iterations * self.runner.steps_per_iteration
        title, *said = introduction(self.setup, self.directory, steps, self.runner.spread)
        self.display.start(title, [*said, *capacity.memory_lines(self.runner), *self.said], steps)
        previous, kept = self.catch_signals(), None
        try:
            if self.checkpoints.steps is None:
                self.runner.begin()
                self.begun()
                self.save()
                self.began_at = self.runner.steps
            elif self.runner.steps >= steps:
                kept = self.stored_evaluation()
                what = "it is only evaluated" if kept is None and self.setup.scored else "nothing is left to do"
                self.display.note(f"This run had finished all of its {steps:,} steps; {what}.")
            if kept is None and self.setup.scored:
                self.runner.prepare(self.episodes, step_limit(self.setup), soon=bool(self.evaluate_every))
                load_drawing()
            if not self.runner.exact:
                cannot = "is not checkpointed" if self.runner.may_save else "cannot be checkpointed"
                tip = " --env.snapshots true saves it if it can be copied, which forage check tries."
                self.display.note(
                    f"Note: {self.setup.name}'s state {cannot}; on resume, unfinished episodes restart."
                    f"{tip if self.runner.may_save else ''}"
                )
            self.loop()
            check_rewarded(self.points)
            seconds, spent = self.seconds, {} if kept else self.seconds_by_activity()
            self.runner.retire()
            if self.setup.scored:
                evaluation = kept or self.score_agents()
                if not kept:
                    spent = sum_counts([spent, {"evaluate": self.scoring_took}])
                self.keep_texts()
                took = (seconds, self.scoring_took)
                result, lines = conclude(self.directory, self.setup, self.runner, evaluation, took, spent, self.stopped)
                self.track_evaluation(evaluation)
                for tracker in self.trackers:
                    tracker.write_score(result)
            else:
                rows = self.points
                result, lines = conclude_unscored(self.directory, self.setup, self.runner, rows, seconds, spent)
        except InterruptedCompiling as error:
            if self.checkpoints.steps is not None and self.runner.steps != self.checkpoints.steps:
                self.save()
            raise RunInterrupted(f"{error} Continue with: forage resume {self.directory}") from None
        except RunInterrupted:
            raise
        except CallbackFailed as failed:
            failed.error.add_note(f"A callback raised this.{self.what_is_kept()}")
            raise failed.error from None
        except ForageError as error:
            raise ForageError(f"{str(error).rstrip('.')}.{self.what_is_kept()}") from error
        except jax.errors.JaxRuntimeError as error:
            raise ForageError(f"{device_failure(error, self.runner.steps)}{self.what_is_kept()}") from error
        except BrokenPipeError:  # the reader of the output is gone
            raise
        except OSError as error:
            what = f"{error.strerror or error}: {error.filename or self.directory}"
            raise ForageError(f"The run could not write its files ({what}).{self.what_is_kept()}") from error
        finally:
            compiling.stop.by = ""
            self.display.stop()
            for number, handler in previous.items():
                signal.signal(number, handler)
            for tracker in self.trackers:
                tracker.close()
            self.runner.close()
        self.display.finish(result, lines)
        return Run(self.directory)

    def score_agents(self) -> dict[str, Any]:
        """Play the episodes of the score, and measure the seconds that they take."""
        began, episodes = time.monotonic(), self.episodes
        with said_if_long(self.display.note, self.setup, episodes):
            found = score_agents(self.runner, self.setup, episodes)
        self.scoring_took = time.monotonic() - began
        return found

    def inherit(self, inheritance: Inheritance) -> None:
        """Start with the weights and the memory of another run."""
        self.begun = lambda: inheritance.begin(self.runner)
        self.said += inheritance.lines()

    def score(self, returns: np.ndarray) -> np.ndarray:
        """Return the combination of several rewards' returns into one."""
        return self.setup.rewards.score(returns, self.setup.spec)

    def loop(self) -> None:
        self.sat_down = time.monotonic()
        spi = self.runner.steps_per_iteration
        done = self.runner.steps // spi
        row_from, compiled_at, batch = done, None, 1
        if self.evaluate_every:
            evaluated = [row["steps"] for row in read_rows(self.evaluations.path)]
            if not evaluated:
                self.evaluate(0)
                self.act_on_evaluation()  # before the first step there is no training to stop
            elif done % self.evaluate_every == 0 and self.runner.steps not in evaluated:  # interrupted
                self.evaluate(done // self.evaluate_every)
                self.stopped = self.act_on_evaluation()
        self.started = last_row = learning = time.monotonic()
        while done < self.iterations and not self.stopped:
            mark = min(self.iterations, (done // self.every + 1) * self.every)
            count = min(batch, mark - done)
            if self.evaluate_every:
                count = min(count, self.evaluate_every - done % self.evaluate_every)
            count = self.keeping.iterations_to_keep(done, count)
            start, before = time.monotonic(), self.runner.steps
            self.interval.train(start)
            report = self.advance(count)
            self.finite.check(report, before, self.seconds)
            self.bounds.look()
            now = time.monotonic()
            done += count
            if compiled_at is None:  # the first call compiles, so its speed means nothing
                self.watch.spent["compile"], self.before = now - start, self.runner.activity_seconds
                compiled_at, learning, last_row, row_from = done, now, now, done
            else:
                # Report about every second; the results must not depend on the clock.
                batch = max(1, min(self.every, int(count * 1.0 / max(now - start, 1e-3)) or 1, 4 * batch))
            self.totals.add(report)
            timed = len(self.setup.members) * (done - row_from) * spi
            speed = round(timed / max(now - last_row, 1e-9), 1) if timed else None
            row = {"steps": self.runner.steps, "seconds": round(self.seconds, 3), "steps_per_second": speed}
            row |= self.totals.point(self.setup.spec.reward_names, self.score)
            if timed and "tokens" in row:
                row["tokens_per_second"] = token_speed(row, now - last_row)
            done_here = done - compiled_at
            left = (now - learning) / done_here * (self.iterations - done) if done_here else float("nan")
            self.display.update(self.display_row(row), left)
            if done == mark:
                self.note_missing()
                self.write_row(row)
                self.totals, row_from, last_row = Totals(), done, now
            self.keeping.reach(done)
            took = 0.0
            number = done // self.evaluate_every if self.evaluate_every and done % self.evaluate_every == 0 else None
            aside = self.calling + (0.0 if number is None else self.evaluating)
            # Save before a long pause, so that no training is lost during it.
            if aside and self.interval.due(time.monotonic(), aside):
                self.save(unevaluated=number is not None)
            if number is not None:
                took = self.evaluate(number)
                self.stopped = self.stopped or self.act_on_evaluation()
            took += self.call_back(row)
            # Leave the pause out of training time.
            self.started, learning, last_row = self.started + took, learning + took, last_row + took
            if self.stopped and done != mark:  # the curve ends with training
                self.write_row(row)
                self.totals = Totals()
            stopping = self.interrupted is not None
            ending = stopping or self.stopped or done == self.iterations
            if stopping:
                compiling.stop.by = ""  # saving compiles only small programs
            if ending or self.interval.due(time.monotonic()):
                self.save()
            if stopping:
                raise RunInterrupted(
                    f"Stopped by {self.interrupted} at step {self.runner.steps:,}. Continue with: forage resume "
                    f"{self.directory}"
                )
        self.earlier, self.started = self.seconds, None

    def seconds_by_activity(self) -> dict[str, float]:
        """Return the seconds of this session by activity."""
        training = {
            name: seconds - self.before.get(name, 0.0) for name, seconds in self.runner.activity_seconds.items()
        }
        found = sum_counts([self.watch.spent, training])
        return found | {"rest": max(0.0, time.monotonic() - self.sat_down - sum(found.values()))}

    def evaluate(self, number: int) -> float:
        """Play evaluation episodes, new ones at each point, and write their results. Return the seconds.

        Actions are greedy unless the run samples them; the choice between both is made only for the score.
        """
        began = time.monotonic()
        self.watch.start()
        actions = "sampled" if self.setup.evaluation_actions == "sampled" else "greedy"
        episodes, seed = self.episodes, prng.EVALUATION_AT_POINTS + number
        with said_if_long(self.display.note, self.setup, episodes, scored=False):
            found = evaluate_agents(self.runner, self.setup, episodes, seed, actions)
        self.newest, counts = found, {name: found[name] for name in ("cut", "no_reward")}
        self.append(self.evaluations, {"steps": self.runner.steps, **counts} | columns(found))
        self.keep_texts()
        self.track_evaluation(found)
        shown = progress.shown_return(found["return"], self.setup.settings, range_in(found))
        said = "; ".join(counting_sentences(found))
        self.display.note(f"  {self.runner.steps:>12,} steps   evaluated: {shown}{f' ({said})' if said else ''}")
        if (self.setup.parent or {}).get("offline"):
            self.compare_with_handover()
        self.watch.lap("evaluate")
        self.evaluating = time.monotonic() - began
        return self.evaluating

    def keep_texts(self) -> None:
        """Write the texts of the newest evaluation, if there are any."""
        if self.runner.conversations:
            self.append(self.texts, texts_row(self.runner.steps, self.runner.conversations))

    def compare_with_handover(self) -> None:
        """Record the evaluations against the first one, of the offline run's policy, and note a fall."""
        rows = read_rows(self.evaluations.path)
        if not rows:  # a full disk kept it from being written
            return
        found, said = handover_record(self.setup.members, rows)
        try:
            write_json(self.directory / "handover.json", found)
        except OSError as error:
            self.display.note(f"Could not write {self.directory / 'handover.json'}: {error.strerror or error}.")
        if said:
            self.display.note(said)

    def act_on_evaluation(self) -> str:
        """Keep the agents of the newest evaluation if it is the best. Return its reason to end training, or an empty
        text.
        """
        return self.keeping.keep_if_best(self.newest) if self.newest else ""

    def call_back(self, row: dict[str, Any]) -> float:
        """Call the callbacks. If one fails, save the run before raising its error. Return the seconds."""
        began = time.monotonic()
        for callback in self.callbacks:
            try:
                if callback(View(self, row)) is False:
                    self.stopped = self.stopped or "a callback returned False"
            except Exception as error:
                self.save(quietly=True)
                if isinstance(error, ForageError):
                    raise
                raise CallbackFailed(error) from error
        took = time.monotonic() - began if self.callbacks else 0.0
        self.calling = max(self.calling, took)
        return took

    def note_missing(self) -> None:
        """Note each requested name that the environment's info lacks, once."""
        for name, known in self.runner.missing().items():
            if name not in self.missed:
                self.missed.add(name)
                there = f"it has {', '.join(known)}" if known else "it is empty"
                self.display.note(f"No episode so far ended with {name} in {self.setup.name}'s info; {there}.")

    def track(self, row: dict[str, Any]) -> None:
        """Write the numbers of a step to the trackers."""
        for tracker in self.trackers:
            tracker.write(row)

    def track_evaluation(self, evaluation: dict[str, Any]) -> None:
        """Write the results of an evaluation to the trackers."""
        found = {f"evaluation/{name}": value for name, value in columns(evaluation).items()}
        self.track({"steps": evaluation["steps"]} | found)

    def track_again(self, run: Run) -> None:
        """Write all points of a resumed run to the trackers, in the order of their steps."""
        points: list[tuple[int, Any, Any]] = [(row["steps"], self.track, row) for row in run.rows]
        for row in run.evaluations:
            points.append((row["steps"], self.track_evaluation, row | {"members": self.setup.members}))
        for _, tell, row in sorted(points, key=lambda point: point[0]):
            tell(row)

    def advance(self, count: int) -> Report:
        try:
            return self.runner.advance(count)
        except Unsound:
            raise
        except ForageError as error:
            # An environment or a person failed, and the agent is intact. Without progress the checkpoint holds more.
            if self.runner.steps != self.checkpoints.steps:
                self.save(quietly=True)
            if isinstance(error, RunInterrupted):
                raise RunInterrupted(f"{error} Continue with: forage resume {self.directory}") from None
            raise

    def append(self, rows: CurveRows, row: dict[str, Any]) -> None:
        try:
            rows.append(row)
        except ForageError as error:
            if len(rows.waiting) == 1:  # noted once
                self.display.note(f"{error} Training goes on and will try again.")

    def display_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row with the columns that displays add: the newest episodes, and the step since which none has
        ended.

        If episodes are text, the newest one is added too.
        """
        if self.setup.offline:
            return row
        if (sample := self.runner.sample()) is not None:
            row = row | {"sample": printable(sample)}
        rows = [*self.points, row]
        return row | {"newest": newest(rows), "quiet_since": quiet_since(rows), "within": self.within}

    def write_row(self, row: dict[str, Any]) -> None:
        self.watch.start()
        held = self.runner.measure_validation()
        self.watch.lap("evaluate")
        row = row | {name: to_float(values) for name, values in held.items()}
        self.append(self.rows, row)
        self.display.row(self.display_row(row))
        self.track(row)
        self.points.append(row)

    def save(self, quietly: bool = False, unevaluated: bool = False) -> None:
        """Write a checkpoint and the agents. A full disk does not stop the run while it can try again later.

        At the last chance, the agents are written alone. `unevaluated`: an evaluation of this very step is still to
        come.
        """
        steps, began = self.runner.steps, time.monotonic()
        header: dict[str, Any] = {"steps": steps, "seconds": self.seconds, "since": self.totals.plain()}
        if unevaluated:
            header["unevaluated"] = True
        self.watch.start()
        try:
            for rows in (self.rows, self.evaluations, self.texts):
                # Write the curve first: a checkpoint must not be ahead of it.
                self.checkpoints.with_room(functools.partial(rows.flush, durable=True))
            self.checkpoints.save(header)
        except NotFinite as error:
            raise Unsound(self.finite.describe_unsaved(error)) from error
        except ForageError as error:
            last = self.stopped or steps >= self.iterations * self.runner.steps_per_iteration
            if quietly or (self.checkpoints.steps is not None and not last and self.interrupted is None):
                self.display.note(f"{error} Training goes on and will try again.")
                return
            if not is_full(error) or not (said := self.checkpoints.save_agents(header)):
                raise
            self.display.note(f"{error} {said}")
        finally:
            self.watch.lap("save")
            self.interval.save(began, time.monotonic(), steps == self.checkpoints.steps)

    def restore(self, run: Run) -> None:
        """Load the newest whole checkpoint, and drop points of the curve after it.

        A run that was stopped before its first checkpoint starts from scratch.
        """
        header = self.checkpoints.load(run)
        steps = -1 if header is None else header["steps"]
        # An evaluation due after the checkpoint of the same step is repeated, and acted on then.
        played = steps - 1 if header is not None and header.get("unevaluated") else steps
        for rows, last in ((self.rows, steps), (self.evaluations, played), (self.texts, played)):
            for line in rows.drop_after(last):
                self.display.note(f"Line {line} of {rows.path} is damaged and left out; the others are kept.")
        self.points = read_rows(self.rows.path)
        if header is None:
            return
        self.earlier, self.totals = header["seconds"], Totals(header["since"])

    def what_is_kept(self) -> str:
        if self.checkpoints.steps is None or self.learned_nothing:
            return ""
        return f" The run is kept as of step {self.checkpoints.steps:,} in {self.directory}."

    def catch_signals(self) -> dict[int, Any]:
        """Make the first Ctrl-C, SIGTERM or SIGHUP save and stop at the next report, and a second one stop at once.

        A closed terminal sends SIGHUP, often twice, unless `nohup` ignores it. The first signal also stops a
        compilation, which may take long. Return the previous handlers.
        """
        previous: dict[int, Any] = {}
        hangup = getattr(signal, "SIGHUP", None)  # Windows has none

        def handle(number: int, frame: Any) -> None:
            if number == hangup:
                streams.leave_closed_terminal()
            if self.interrupted is not None:
                if number == hangup:  # a second one is no sign of impatience
                    return
                raise KeyboardInterrupt
            self.interrupted = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            compiling.stop.ask(self.interrupted)

        heard = [signal.SIGINT, signal.SIGTERM]
        if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
            heard.append(hangup)
        try:
            for number in heard:
                previous[number] = signal.signal(number, handle)
        except ValueError:  # not in the main thread: the owner of the thread handles signals
            pass
        return previous
