"""A sitting of a run: the loop that trains, shows, records and saves, from a beginning or a checkpoint to an end."""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from forage.config.registry import short_name
from forage.config.setup import Setup
from forage.core import checkpoint, prng
from forage.core.errors import Interrupted
from forage.core.ports import Evolver
from forage.core.spaces import reading
from forage.core.types import ForageError
from forage.evaluation.plots import heat_map
from forage.loop import soundness
from forage.loop.learner import Report
from forage.loop.runner import Runner
from forage.loop.soundness import NotFinite, Unsound, learned_sentence
from forage.memory.dataset import DataSet
from forage.rewards.environment import EnvironmentReward
from forage.runs import display as progress
from forage.runs.curve import Rows, Totals, columns, read_rows
from forage.runs.run import Run, by_setting, draw_curve, scored, write_json
from forage.runs.scoring import cut_sentence, evaluate_agents, how_scored, score_agents, step_limit

POINTS = 100  # on the curve
PATIENCE = 120.0  # seconds of training that are played again at most, to find who turned bad


class Traced(NamedTuple):
    """The turn of the loop in which something was not finite any more."""

    before: int  # the step it began at
    environment: np.ndarray  # whether each seed's was finite
    learned: np.ndarray  # and what it has learned


class Session:
    """One sitting of a run: from its beginning or a checkpoint to its end or an interruption."""

    def __init__(
        self,
        directory: Path,
        setup: Setup,
        runner: Runner,
        settings: dict[str, Any],
        display: progress.Progress,
        trackers: Sequence[Any] = (),
    ):
        self.directory, self.setup, self.runner, self.settings = directory, setup, runner, settings
        self.display, self.trackers = display, trackers
        self.iterations = -(-setup.steps // runner.steps_per_iteration)
        self.every = max(1, self.iterations // POINTS)  # iterations between points of the curve
        every = settings.get("evaluation_every")
        self.evaluate_every = every and -(-every // runner.steps_per_iteration)  # iterations between evaluations
        self.rows, self.evaluations = Rows(directory / "metrics.jsonl"), Rows(directory / "evaluations.jsonl")
        self.totals = Totals()  # since the last point
        self.earlier = 0.0  # seconds of earlier sittings
        self.started: float | None = None  # when this one's loop began
        self.interrupted: str | None = None
        self.saved_at: int | None = None
        self.missed: set[str] = set()  # names of the environment's own that it does not say
        self.saved_seconds = 0.0  # in the loop, when that was
        self.kept: list[Path] = []  # checkpoints, oldest first

    @property
    def seconds(self) -> float:
        """Spent in the loop, in earlier sittings too."""
        return self.earlier + (0.0 if self.started is None else time.monotonic() - self.started)

    def run(self) -> Run:
        """Trains to the end; from the beginning unless a checkpoint was restored."""
        self.display.settings = self.setup.settings
        self.display.start(self.title(), self.introduction(), self.iterations * self.runner.steps_per_iteration)
        previous = self.catch_signals()
        try:
            if self.saved_at is None:
                self.runner.begin()
                self.save()
            self.runner.prepare(self.settings["evaluation_episodes"], step_limit(self.setup))
            if not self.runner.exact:
                self.display.note(f"{self.setup.name} cannot be saved exactly: after a stop new episodes begin.")
            self.loop()
            result, lines = self.conclude()
        except Interrupted:
            raise
        except ForageError as error:
            raise ForageError(f"{str(error).rstrip('.')}.{self.what_is_kept()}") from error
        except jax.errors.JaxRuntimeError as error:
            raise ForageError(f"{device_failure(error, self.runner.steps)}{self.what_is_kept()}") from error
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
            self.runner.close()
        self.display.finish(result, lines)
        return Run(self.directory)

    def title(self) -> str:
        seeds, settings = len(self.setup.seeds), self.setup.settings
        each = f"{seeds} seed{'s' if seeds > 1 else ''}"
        many = f"{settings} settings with {each} each" if settings > 1 else each
        return f"{short_name(self.setup.agent)} on {self.setup.name}, {many}"

    def score(self, returns: np.ndarray) -> np.ndarray:
        """What returns in several rewards are worth together."""
        return self.setup.rewards.score(returns, self.setup.spec)

    def introduction(self) -> list[str]:
        lines = [f"in {self.directory}"]
        if wrapped := self.setup.environment_config.get("wrap"):
            lines.append(f"{self.setup.name} in {', '.join(wrapped)}")
        if self.setup.why:
            lines.append(f"{short_name(self.setup.agent)} because {self.setup.why}")
        if self.setup.settings_from:
            lines.append(f"{self.setup.settings_from}: {self.sizes()}")
        if isinstance(memory := self.setup.memory, DataSet):
            lines.append(f"from {memory.file}; each step is an update, and none is taken in the environment")
        if self.setup.steps_from:
            lines.append(f"{self.setup.steps:,} steps of each seed, {self.setup.steps_from}; --steps changes it")
        if isinstance(agent := self.setup.agent, Evolver):
            lines.append(
                f"steps are those played: each seed plays generations of {agent.num_envs} episodes while one of full "
                f"length fits into its {self.iterations * self.runner.steps_per_iteration:,} steps (`played` says "
                f"how many it took)"
            )
        return lines + reading(self.setup.spec.observation_space)

    def sizes(self) -> str:
        """The settings that decide most, as the start of a run says them."""
        agent = self.setup.agent
        names = ("learning_rate", "epochs", "minibatches", "entropy_coefficient", "normalise_observation", "batch_size")
        own = {field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)}
        said = [f"{n.replace('_', ' ')} {own[n]}" for n in names if own.get(n, False) is not False]
        said = [text.removesuffix(" True") for text in said]
        if not isinstance(self.setup.rewards, EnvironmentReward):
            said.append(f"rewards {short_name(self.setup.rewards)}")
        each = f"{agent.num_envs} environment{'s' if agent.num_envs > 1 else ''} x {agent.rollout_length} steps"
        return ", ".join(said if self.setup.offline else [each, *said])

    def loop(self) -> None:
        spi = self.runner.steps_per_iteration
        done = self.runner.steps // spi
        row_from, compiled_at, batch = done, None, 1
        if self.evaluate_every and not read_rows(self.evaluations.path):
            self.evaluate(0)
        self.started = last_save = last_row = learning = time.monotonic()
        while done < self.iterations:
            mark = min(self.iterations, (done // self.every + 1) * self.every)
            count = min(batch, mark - done)
            if self.evaluate_every:
                count = min(count, self.evaluate_every - done % self.evaluate_every)
            start, before = time.monotonic(), self.runner.steps
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
            row = {"steps": self.runner.steps, "seconds": round(self.seconds, 3), "steps_per_second": speed}
            row |= self.totals.point(self.setup.spec.reward_names, self.score)
            done_here = done - compiled_at
            left = (now - learning) / done_here * (self.iterations - done) if done_here else float("nan")
            self.display.update(row, left)
            if done == mark:
                self.note_missing()
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
                    f"Stopped by {self.interrupted} at step {self.runner.steps:,}. Continue with: forage resume "
                    f"{self.directory}"
                )
        self.earlier, self.started = self.seconds, None

    def evaluate(self, number: int) -> float:
        """Plays episodes apart from training, others at each point, and writes what they brought. Returns seconds.

        Greedily unless the run was told to sample: what suits the policy is only asked of the one that is scored.
        """
        began = time.monotonic()
        actions = "sampled" if self.setup.evaluation_actions == "sampled" else "greedy"
        episodes, seed = self.settings["evaluation_episodes"], prng.EVALUATION_AT_POINTS + number
        found = evaluate_agents(self.runner, self.setup, episodes, seed, actions)
        self.append(self.evaluations, {"steps": self.runner.steps, "cut": found["cut"]} | columns(found))
        self.track_evaluation(found)
        shown = progress.shown_return(found["return"], self.setup.settings)
        cut = f" ({cut_sentence(found)})" if found["cut"] else ""
        self.display.note(f"  {self.runner.steps:>12,} steps   evaluated: {shown}{cut}")
        return time.monotonic() - began

    def note_missing(self) -> None:
        """Say once which names of the environment's own information have not occurred."""
        for name, known in self.runner.missing().items():
            if name not in self.missed:
                self.missed.add(name)
                there = f"it has {', '.join(known)}" if known else "it is empty"
                self.display.note(f"No episode so far ended with {name} in {self.setup.name}'s info; {there}.")

    def track(self, row: dict[str, Any]) -> None:
        """Hands the numbers of a step to the trackers."""
        for tracker in self.trackers:
            tracker.write(row)

    def track_evaluation(self, evaluation: dict[str, Any]) -> None:
        """Hands what an evaluation found to the trackers."""
        found = {f"evaluation/{name}": value for name, value in columns(evaluation).items()}
        self.track({"steps": evaluation["steps"]} | found)

    def track_again(self, run: Run) -> None:
        """Hands the points of a run that goes on to the trackers."""
        for row in run.rows:
            self.track(row)
        for row in run.evaluations:
            self.track_evaluation(row | {"members": self.setup.members})

    def advance(self, count: int) -> Report:
        try:
            return self.runner.advance(count)
        except Unsound:
            raise
        except ForageError as error:
            # An environment or a person failed, and the agent is whole. Without progress the checkpoint says more.
            if self.runner.steps != self.saved_at:
                self.save(quietly=True)
            if isinstance(error, Interrupted):
                raise Interrupted(f"{error} Continue with: forage resume {self.directory}") from None
            raise

    def check(self, report: Report, before: int) -> None:
        """Stops when something is not finite, before it is saved, and says who turned bad, where and when."""
        environment, learned = (np.atleast_1d(x) for x in (report.environment_finite, report.agent_finite))
        if environment.all() and learned.all():
            return
        after = self.runner.steps
        traced = self.trace(before) if self.runner.replays else None
        if isinstance(traced, str):
            raise Unsound(traced)
        if traced is not None:
            (before, environment, learned), after = traced, self.runner.steps
        member = int(np.argmin(environment if not environment.all() else learned))
        where = f"between steps {self.runner.since(member, before):,} and {after:,}"
        seed = self.setup.members[member]["seed"]
        if not environment[member]:
            raise Unsound(f"{self.setup.name} returned NaN or infinity {where} with seed {seed}; mend the environment.")
        part, bad = self.runner.search(member) or ("agent", None)
        raise Unsound(learned_sentence(part, bad, where, seed))

    def trace(self, before: int) -> Traced | str | None:
        """Plays again from the newest checkpoint, turn by turn from step `before` on, until something is not finite.

        Training is the same bit for bit, so the same turns bad again. Returns a sentence where it was seen in what was
        experienced, else the turn, after which the runner stands; `None` where that takes too long or does not show it.
        """
        if not self.kept or self.seconds - self.saved_seconds > PATIENCE:
            return None
        self.display.note("Something is not finite; playing again from the newest checkpoint to find out what.")
        runner = self.runner
        until, each = runner.steps, runner.steps_per_iteration
        try:
            self.rewind(before)
            while runner.steps < until:
                report = runner.advance(1)
                environment, learned = np.asarray(report.environment_finite), np.asarray(report.agent_finite)
                if not (environment.all() and learned.all()):
                    break
            else:
                return None
            start = runner.steps - each
            self.rewind(start)
            rollouts = runner.next_rollout()
            member = int(np.argmin(environment if not environment.all() else learned))
            rollout = jax.tree.map(lambda leaf: leaf[member], rollouts)
            runner.advance(1)
        except (ForageError, MemoryError, jax.errors.JaxRuntimeError):
            return None  # what is known without it is said
        found = soundness.search_rollout(rollout, self.setup.spec.num_agents)
        if found is None:
            return Traced(start, environment, learned)
        step = start + (found.time + 1) * self.setup.agent.num_envs
        who = f"{short_name(self.setup.agent)} chose" if found.ours else f"{self.setup.name} returned"
        advice = "a smaller learning rate often helps" if found.ours else "mend the environment"
        return (
            f"{who} {found.bad.value} as {found.bad.entry} at step {step:,} in environment {found.env} with seed "
            f"{self.setup.members[member]['seed']}; {advice}."
        )

    def rewind(self, steps: int) -> None:
        """Go back to a step between the newest checkpoint and now."""
        self.runner.load(self.kept[-1])
        self.runner.advance((steps - self.runner.steps) // self.runner.steps_per_iteration)

    def append(self, rows: Rows, row: dict[str, Any]) -> None:
        try:
            rows.append(row)
        except ForageError as error:
            if len(rows.waiting) == 1:  # said once
                self.display.note(f"{error} Training goes on and will try again.")

    def write_row(self, row: dict[str, Any]) -> None:
        self.append(self.rows, row)
        self.display.row(row)
        self.track(row)

    def save(self, quietly: bool = False) -> None:
        """Writes a checkpoint and the agents. A full disk does not stop the run while it can go on and try again."""
        steps = self.runner.steps
        header = {"steps": steps, "seconds": self.seconds, "since": self.totals.plain()}
        path = self.directory / "checkpoints" / f"{steps:012d}.npz"
        try:
            for rows in (self.rows, self.evaluations):
                rows.flush(durable=True)  # a checkpoint never knows of points that the curve lacks
            self.runner.save(path, header)
            checkpoint.save(self.directory / "agent.npz", self.runner.agent_states(), header)  # of what was looked at
        except NotFinite as error:
            raise Unsound(self.not_finite(error)) from error
        except ForageError as error:
            last = steps >= self.iterations * self.runner.steps_per_iteration
            if quietly or (self.saved_at is not None and not last and self.interrupted is None):
                self.display.note(f"{error} Training goes on and will try again.")
                return
            raise
        self.saved_at, self.saved_seconds = steps, self.seconds
        # This one and the one before stay. Names do not decide: one that was found damaged may name a later step.
        self.kept = [*(kept for kept in self.kept if kept != path), path][-2:]
        for other in path.parent.glob("*.npz"):
            if other not in self.kept:
                other.unlink()

    def not_finite(self, error: NotFinite) -> str:
        """Say what kept a state from being saved."""
        seed, where = self.setup.members[error.member]["seed"], f"by step {self.runner.steps:,}"
        if error.part in soundness.LEARNED:
            return learned_sentence(error.part, error.bad, where, seed)
        return (
            f"{self.setup.name} returned {error.bad.value} as {error.bad.entry} {where} with seed {seed}; mend the "
            f"environment."
        )

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
        self.saved_seconds = self.earlier

    def load(self, run: Run) -> dict[str, Any] | None:
        """Load the newest whole checkpoint and return its header, `None` where there is none. Change no file."""
        problems: list[str] = []
        for path in reversed(run.checkpoints):
            try:
                header = self.runner.load(path)
            except ForageError as error:
                problems.append(str(error))
                continue
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
        self.runner.retire()
        evaluation = score_agents(self.runner, self.setup, self.settings["evaluation_episodes"])
        write_json(self.directory / "evaluation.json", evaluation)
        picture = draw_curve(Run(self.directory))
        where = self.write_visits()
        self.track_evaluation(evaluation)
        scores = by_setting(self.setup.members, evaluation["return"])
        lines = []
        for label, found in scores.items():
            what = f" with {label}" if label else ""
            lines.append(f"{short_name(self.setup.agent)} on {self.setup.name}{what}: return {found}")
        unit = "updates" if self.setup.offline else "steps"
        speed = len(self.setup.members) * self.runner.steps / max(seconds, 1e-9)
        lines += [
            *(f"  {line}" for line in how_scored(evaluation)),
            f"  {self.runner.steps:,} {unit} a seed in {progress.duration(seconds)} "
            f"({speed:,.0f} steps/s, compiling included)",
            f"  curve {picture}" + (f", visits {where}" if where else ""),
            f"  watch it: forage watch {self.directory}",
        ]
        result = {
            "directory": str(self.directory),
            "agent": short_name(self.setup.agent),
            "environment": self.setup.name,
            "steps": self.runner.steps,
            "seconds": round(seconds, 3),
            **scored(scores, evaluation),
            "return": evaluation["return"],
        }
        return result, lines

    def write_visits(self) -> Path | None:
        """`visits.npy`, how often each member was at each place of the map, and its picture, where that is measured."""
        counts = self.runner.visits
        if counts is None:
            return None
        with (self.directory / "visits.npy").open("wb") as file:
            np.save(file, counts)
        title = f"{Run(self.directory).title}: where it went"
        return heat_map(self.directory / "visits.png", counts.sum(0), title=title)


def device_failure(error: Exception, steps: int) -> str:
    """What JAX raised while a compiled program ran, in one sentence."""
    text = str(error)
    if "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
        return f"There was not enough memory after step {steps:,}; fewer seeds, a smaller memory or network takes less."
    last = text.strip().splitlines()[-1].strip() if text.strip() else type(error).__name__
    return f"A compiled part of the loop failed after step {steps:,}: {last.rstrip('.')}."
