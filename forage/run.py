"""A run on disk: configuration, progress, metrics, checkpoints, resume.

DIRECTORY/config.json        what was asked for: parts, settings, steps, seeds
DIRECTORY/versions.json      versions, git state and machine
DIRECTORY/metrics.jsonl      a line for each point of the curve; every value a list over members
DIRECTORY/checkpoints/       the two newest checkpoints: everything to continue from
DIRECTORY/agent.npz          the agents alone, to act with
DIRECTORY/evaluation.json    episodes played apart from training, and the score
DIRECTORY/curve.png
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from forage import checkpoint, progress
from forage.evaluation.plots import curve
from forage.evaluation.statistics import Score, score
from forage.experiment import Report
from forage.policy import Policy
from forage.registry import part_name
from forage.setup import Road, Setup, from_config, make_setup, to_float
from forage.types import ForageError
from forage.versions import differences, versions

POINTS = 100  # on the curve


class Run:
    """A run's directory, seen from outside."""

    def __init__(self, directory: str | os.PathLike[str]):
        self.directory = Path(directory)
        if not (self.directory / "config.json").exists():
            raise ForageError(f"{self.directory} is not a run: it has no config.json.")
        self.config: dict[str, Any] = json.loads((self.directory / "config.json").read_text())

    @property
    def title(self) -> str:
        return f"{self.config['agent']['part']} on {self.config['spec']['name']}"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The points of the curve."""
        return read_rows(self.directory / "metrics.jsonl")

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps of each point, and each member's mean return there, NaN where no episode ended: `member point`."""
        rows = self.rows
        returns = [[np.nan if v is None else v for v in row["return"]] for row in rows]
        return np.array([row["steps"] for row in rows]), np.array(returns, float).reshape(len(rows), -1).T

    @property
    def evaluation(self) -> dict[str, Any] | None:
        path = self.directory / "evaluation.json"
        return json.loads(path.read_text()) if path.exists() else None

    @property
    def score(self) -> Score:
        """The interquartile mean over seeds of the mean evaluation return, with its 95 % interval."""
        if self.evaluation is None:
            raise ForageError(f"{self.directory} has not been evaluated; forage evaluate {self.directory} does it.")
        return score(np.array(self.evaluation["return"]))

    @property
    def checkpoints(self) -> list[Path]:
        """Oldest first."""
        return sorted((self.directory / "checkpoints").glob("*.npz"))

    @property
    def agent(self) -> Policy:
        """The trained agent of the best seed, ready to act."""
        return Policy.load(self.directory)

    def act(self, observation: Any) -> Any:
        """The evaluation policy's action; for agents with memory keep one `agent` instead and `reset` it."""
        return self.agent.act(observation)


def train(
    agent: Any = None,
    environment: Any = None,
    *,
    steps: int | None = None,
    seeds: int | Sequence[int] | None = None,
    directory: str | os.PathLike[str] | None = None,
    evaluation_episodes: int | None = None,
    checkpoint_seconds: float = 30.0,
    display: str = "auto",
    extras: Sequence[str] = (),
    **options: Any,
) -> Run:
    """Trains an agent and returns the run.

    `agent`: an agent, its name, or `None` for one that suits. `environment`: an id, a `forage.ports.Environment`,
    or a function that builds a batch on the host. `steps` are of each seed. `options`: parts for the ports by name
    (`behaviour=`, `rewards=`, `memory=`, `tasks=`, `starts=`), `sweep={"learning_rate": [...]}`,
    `agent_options`, `environment_options`. `display`: `auto`, `live`, `plain`, `json` or `quiet`.

    >>> import forage
    >>> run = forage.train("ppo", "CartPole-v1", steps=500_000, seeds=5)  # doctest: +SKIP
    """
    setup = make_setup(agent, environment, steps=steps, seeds=seeds, **options)
    road = setup.road()
    path = Path(directory) if directory is not None else new_directory(setup)
    if (path / "config.json").exists():
        raise ForageError(f"{path} already holds a run; forage resume {path} continues it, or name another directory.")
    settings = {
        "evaluation_episodes": evaluation_episodes or (32 if setup.native else 10),
        "checkpoint_seconds": checkpoint_seconds,
        "extras": list(extras),
    }
    write_json(path / "config.json", setup.config() | settings)
    write_json(path / "versions.json", versions())
    session = Session(path, setup, road, settings, display)
    return session.run(begin=True)


def resume(
    directory: str | os.PathLike[str], *, display: str = "auto", anyway: bool = False, environment: Any = None
) -> Run:
    """Continues a run from its newest whole checkpoint, as if it had never stopped.

    Raises `ForageError` when code or versions differ from those it was made with, unless `anyway`.
    """
    run = Run(directory)
    differing = differences(json.loads((run.directory / "versions.json").read_text()))
    if differing and not anyway:
        raise ForageError(
            f"{directory} was made with {differing}, so it would not continue bit for bit; add --anyway to go on."
        )
    setup = from_config(run.config, environment)
    road = setup.road()
    session = Session(run.directory, setup, road, run.config, display)
    session.restore(run)
    return session.run(begin=False)


class Session:
    """One sitting of a run: from its beginning or a checkpoint to its end or an interruption."""

    def __init__(self, directory: Path, setup: Setup, road: Road, settings: dict[str, Any], display: str):
        self.directory, self.setup, self.road, self.settings = directory, setup, road, settings
        self.display = progress.make(display)
        per_iteration = road.steps_per_iteration
        self.iterations = -(-setup.steps // per_iteration)
        self.every = max(1, self.iterations // POINTS)  # iterations between points of the curve
        self.seconds = 0.0  # of earlier sittings too
        self.interrupted: str | None = None
        self.saved_at: int | None = None
        self.trackers: list[Any] = []

    def run(self, begin: bool) -> Run:
        if self.settings["extras"]:
            from forage.trackers import open_trackers

            self.trackers = open_trackers(self.settings["extras"], self.directory)
        self.display.start(self.title(), self.introduction(), self.iterations * self.road.steps_per_iteration)
        previous = self.catch_signals()
        try:
            if begin:
                self.road.begin()
                self.save()
            if not self.road.exact:
                self.display.note(f"{self.setup.name} cannot be saved exactly: after a stop new episodes begin.")
            self.loop()
            result, lines = self.conclude()
        except Interrupted:
            raise
        except ForageError as error:
            raise ForageError(f"{str(error).rstrip('.')}.{self.what_is_kept()}") from error
        finally:
            self.display.stop()
            for number, handler in previous.items():
                signal.signal(number, handler)
            for tracker in self.trackers:
                tracker.close()
        self.display.finish(result, lines)
        return Run(self.directory)

    def title(self) -> str:
        members = len(self.setup.members)
        return f"{part_name(self.setup.agent)} on {self.setup.name}, {members} seed{'s' if members > 1 else ''}"

    def introduction(self) -> list[str]:
        lines = [f"in {self.directory}"]
        if self.setup.why:
            lines.append(f"{part_name(self.setup.agent)} because {self.setup.why}")
        return lines

    def loop(self) -> None:
        spi = self.road.steps_per_iteration
        done = self.road.steps // spi
        reports: list[Report] = []
        began, last_save, last_row = time.monotonic(), time.monotonic(), time.monotonic()
        row_from, timed_from, batch, compiled = done, None, 1, 0.0
        while done < self.iterations:
            mark = min(self.iterations, (done // self.every + 1) * self.every)
            count = min(batch, mark - done)
            start = time.monotonic()
            before = self.road.steps
            report = self.advance(count)
            took = time.monotonic() - start
            self.check(report, before)
            if timed_from is None:
                compiled, began, timed_from = took, time.monotonic(), done + count  # the first call compiles
                last_row, row_from = began, done + count
            else:
                # A report about every second, and never one whose length depends on the clock alone in its results.
                batch = max(1, min(self.every, int(count * 1.0 / max(took, 1e-3)) or 1, 4 * batch))
            done += count
            reports.append(report)
            now = time.monotonic()
            speed = len(self.setup.members) * (done - row_from) * spi / max(now - last_row, 1e-9)
            row = self.row(reports, self.seconds + now - began + compiled, speed)
            left = (now - began) / (done - timed_from) * (self.iterations - done) if done > timed_from else float("nan")
            self.display.update(row, left)
            if done == mark:
                self.write_row(row)
                reports, row_from, last_row = [], done, now
            stopping = self.interrupted is not None
            if stopping or done == self.iterations or now - last_save > self.settings["checkpoint_seconds"]:
                self.elapsed = now - began + compiled
                self.save()
                # Saving may take at most a twentieth of the time.
                last_save = time.monotonic() + 20 * (time.monotonic() - now)
            if stopping:
                raise Interrupted(
                    f"Stopped by {self.interrupted} at step {self.road.steps:,}. Continue with: forage resume "
                    f"{self.directory}"
                )
        self.seconds += time.monotonic() - began + compiled

    def advance(self, count: int) -> Report:
        try:
            return self.road.advance(count)
        except ForageError:
            self.save(quietly=True)  # an environment failed: the agent is whole
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

    def row(self, reports: list[Report], seconds: float, speed: float) -> dict[str, Any]:
        """A point of the curve from the reports since the last one; every value but the first a list over members."""
        count = sum(np.asarray(r.episodes.count, float) for r in reports)
        with np.errstate(divide="ignore", invalid="ignore"):
            returns = sum(np.asarray(r.episodes.episode_return, float) for r in reports)
            length = sum(np.asarray(r.episodes.length, float) for r in reports) / count
            row: dict[str, Any] = {"steps": self.road.steps, "seconds": round(seconds, 3)}
            row["steps_per_second"] = round(speed, 1)
            if returns.ndim > 1:
                per_episode = returns / count[:, None]
                row["return"] = to_float(per_episode.sum(1))
                for i, name in enumerate(self.setup.spec.reward_names):
                    row[f"return/{name}"] = to_float(per_episode[:, i])
            else:
                row["return"] = to_float(returns / count)
            row |= {"length": to_float(length), "episodes": to_float(count)}
            updates = sum(np.asarray(r.metrics["updates"], float) for r in reports)
            row["updates"] = to_float(updates)
            for name in sorted(set().union(*(r.metrics for r in reports)) - {"updates"}):
                total = sum(np.asarray(r.metrics[name]) * r.metrics["updates"] for r in reports if name in r.metrics)
                row[name] = to_float(total / updates)
        return row

    def write_row(self, row: dict[str, Any]) -> None:
        with open(self.directory / "metrics.jsonl", "a") as file:
            file.write(json.dumps(row) + "\n")
        self.display.row(row)
        for tracker in self.trackers:
            tracker.write(row)

    elapsed = 0.0

    def save(self, quietly: bool = False) -> None:
        """Writes a checkpoint and the agents. A full disk does not stop the run while it can go on and try again."""
        steps = self.road.steps
        header = {"steps": steps, "seconds": self.seconds + self.elapsed}
        path = self.directory / "checkpoints" / f"{steps:012d}.npz"
        try:
            checkpoint.save(path, self.road.state, header)
            checkpoint.save(self.directory / "agent.npz", self.road.agent_states(), header)
        except ForageError as error:
            last = steps >= self.iterations * self.road.steps_per_iteration
            if quietly or (self.saved_at is not None and not last and self.interrupted is None):
                self.display.note(f"{error} Training goes on and will try again.")
                return
            raise
        self.saved_at = steps
        for old in sorted(path.parent.glob("*.npz"))[:-2]:
            old.unlink()

    def restore(self, run: Run) -> None:
        """Loads the newest whole checkpoint, and drops points of the curve after it."""
        like = self.road.shapes()
        problems = []
        for path in reversed(run.checkpoints):
            try:
                state, header = checkpoint.load(path, like)
            except ForageError as error:
                problems.append(str(error))
                continue
            self.road.restore(state, header["steps"])
            self.seconds, self.saved_at = header["seconds"], header["steps"]
            rows = [row for row in run.rows if row["steps"] <= header["steps"]]
            text = "".join(json.dumps(row) + "\n" for row in rows)
            checkpoint.write_atomically(self.directory / "metrics.jsonl", lambda file: file.write(text.encode()))
            for problem in problems:
                self.display.note(f"{problem} The one before it is whole.")
            return
        raise ForageError(problems[0] if problems else f"{self.directory} has no checkpoint to continue from.")

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
        evaluation = evaluate_road(self.road, self.setup, self.settings["evaluation_episodes"])
        write_json(self.directory / "evaluation.json", evaluation)
        picture = draw_curve(Run(self.directory))
        groups: dict[str, list[float]] = {}
        for member, value in zip(self.setup.members, evaluation["return"], strict=True):
            label = ", ".join(f"{k}={v:g}" for k, v in member.items() if k != "seed")
            groups.setdefault(label, []).append(value)
        episodes = evaluation["episodes"]
        lines = []
        for label, values in groups.items():
            what = f" with {label}" if label else ""
            lines.append(f"{part_name(self.setup.agent)} on {self.setup.name}{what}: return {score(np.array(values))}")
        speed = len(self.setup.members) * self.road.steps / max(self.seconds, 1e-9)
        lines += [
            f"  interquartile mean over seeds of {episodes} evaluation episodes each, 95 % bootstrap interval",
            f"  {self.road.steps:,} steps a seed in {progress.duration(self.seconds)} "
            f"({speed:,.0f} steps/s, compiling included)",
            f"  curve {picture}",
            f"  watch it: forage watch {self.directory}",
        ]
        best = score(np.array(next(iter(groups.values()))))
        result = {
            "directory": str(self.directory),
            "agent": part_name(self.setup.agent),
            "environment": self.setup.name,
            "steps": self.road.steps,
            "seconds": round(self.seconds, 3),
            "score": best.value,
            "interval": None if best.low is None else [best.low, best.high],
            "seeds": best.seeds,
            "return": evaluation["return"],
        }
        return result, lines


class Interrupted(ForageError):
    """A person stopped the run; all is saved."""


def evaluate_road(road: Road, setup: Setup, episodes: int, seed: int = 1_000_003) -> dict[str, Any]:
    """Plays evaluation episodes, on random streams that training never uses. Returns what evaluation.json holds."""
    limit = 27_000 if setup.spec.horizon is None else int(setup.spec.horizon)
    returns, lengths = road.evaluate(episodes, limit, seed)
    returns, lengths = np.asarray(returns, float), np.asarray(lengths)
    evaluation: dict[str, Any] = {"steps": road.steps, "episodes": episodes, "members": setup.members}
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


def evaluate(directory: str | os.PathLike[str], episodes: int = 100, seed: int = 0, environment: Any = None) -> Score:
    """Evaluates a run's newest checkpoint again, on episodes chosen by `seed`. Returns the score; writes it too."""
    run = Run(directory)
    setup = from_config(run.config, environment)
    road = setup.road()
    Session(run.directory, setup, road, run.config, "quiet").restore(run)
    write_json(run.directory / "evaluation.json", evaluate_road(road, setup, episodes, 1_000_003 + seed))
    return run.score


def draw_curve(run: Run) -> Path:
    steps, values = run.curve()
    path = run.directory / "curve.png"
    sweep = run.config["sweep"]
    if not sweep:
        return curve(path, [(run.config["agent"]["part"], steps, values)], title=run.title)
    members = from_config(run.config).members
    labels = [", ".join(f"{k}={v:g}" for k, v in member.items() if k != "seed") for member in members]
    runs = [(label, steps, values[[i for i, x in enumerate(labels) if x == label]]) for label in dict.fromkeys(labels)]
    return curve(path, runs, title=run.title)


def new_directory(setup: Setup) -> Path:
    """`runs/AGENT-ENVIRONMENT-TIME`, never one that exists."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    safe = setup.name.replace(":", "-").replace("/", "-")
    base = Path("runs") / f"{part_name(setup.agent)}-{safe}-{stamp}".replace(":", "-")
    candidates: Callable[[int], Path] = lambda i: base if i == 0 else base.with_name(f"{base.name}-{i}")  # noqa: E731
    return next(candidates(i) for i in range(10_000) if not candidates(i).exists())


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a metrics file; a crash may have left half a line at its end."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def write_json(path: Path, data: Any) -> None:
    text = json.dumps(data, indent=1) + "\n"
    checkpoint.write_atomically(path, lambda file: file.write(text.encode()))


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk between processes, unless the person has set this up already."""
    if jax.config.jax_compilation_cache_dir is None:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        jax.config.update("jax_compilation_cache_dir", os.path.join(cache, "forage", "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
