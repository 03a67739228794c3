"""A run on disk: configuration, progress, metrics, checkpoints, resume.

DIRECTORY/config.json        parts, settings, steps, seeds; and the parent run
DIRECTORY/history.jsonl      events, each at its step: extended, stopped, changed settings
DIRECTORY/versions.json      versions, git state and machine
DIRECTORY/metrics.jsonl      a line for each point of the curve; every value a list over members
DIRECTORY/checkpoints/       the two newest checkpoints: everything to continue from
DIRECTORY/agent.npz          the agents alone
DIRECTORY/kept/              agents of the best evaluation and of every N steps, if requested
DIRECTORY/evaluation.json    episodes played apart from training, and the score
DIRECTORY/evaluations.jsonl  evaluations during training, if requested
DIRECTORY/texts.jsonl        conversations of these evaluations, in a run on text
DIRECTORY/curve.png
DIRECTORY/visits.npy         steps into each cell of the environment's map, if requested
DIRECTORY/begun.npy          episodes started in each cell
DIRECTORY/sweep.png          in a sweep, the score of each setting against its value
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forage.config import part_data, registry
from forage.config.options import AUTO
from forage.config.packages import locate_run
from forage.config.saved import actions_of, load_policy
from forage.config.trusting import guard_imports
from forage.core import records
from forage.core.errors import check_path
from forage.core.plain import dumps
from forage.core.records import NEEDED, printable, range_in, read_config, read_evaluation
from forage.core.storage import archives
from forage.core.sweep import label_of, members_of, settings_of
from forage.core.types import ForageError
from forage.evaluation.plots import curve
from forage.evaluation.statistics import Score, by_setting
from forage.evaluation.sweep_plot import draw_sweep_scores
from forage.loop.policy import Policy
from forage.runs.curve import Curve, Texts, read_rows, read_texts

if TYPE_CHECKING:
    from pandas import DataFrame


class Run:
    """A run's directory, for reading."""

    def __init__(self, directory: str | os.PathLike[str]):
        if not isinstance(directory, str | os.PathLike):
            raise ForageError(
                f"A run is named by its directory, a text or a path, not by a {type(directory).__name__}."
            )
        check_path(directory)
        self.directory = locate_run(directory)
        if not (self.directory / "config.json").exists():
            raise ForageError(f"{self.directory} is not a run: it has no config.json.")
        self.config = read_config(self.directory)

    def __repr__(self) -> str:
        seeds, where = len(self.config["seeds"]), printable(str(self.directory))
        lines = [f"<Run {where}: {self.title}, {seeds} seed{'s' if seeds > 1 else ''}, {self._state}>"]
        return "\n".join([*lines, *(f"  {line}" for line in self._results)])

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the title, the scores and the curve."""
        from forage.runs.notebook import run_html

        return run_html(self)

    @property
    def _state(self) -> str:
        """Describe the progress of the run."""
        rows, asked = self.rows, self.config["steps"]
        steps = rows[-1]["steps"] if rows else 0
        return f"{steps:,} steps each" if self.evaluation else f"{steps:,} of {asked:,} steps each, not evaluated"

    @property
    def _results(self) -> list[str]:
        """Return the score of each setting as text."""
        found = self.scores if self.evaluation else {}
        return [f"{f'{label}: ' if label else ''}return {one}" for label, one in found.items()]

    def __fspath__(self) -> str:
        """Return the directory, so that a run can be used as a path."""
        return str(self.directory)

    @staticmethod
    def begun(directory: Path) -> bool:
        """Return whether a directory holds a run that has saved a checkpoint, an agent or an evaluation."""
        if not (directory / "config.json").exists():
            return False
        learned = (directory / "evaluation.json").exists() or any((directory / "checkpoints").glob("*.npz"))
        return learned or (directory / "agent.npz").exists()  # alone in a run that was imported

    @staticmethod
    def check_free(directory: Path) -> None:
        """Raise `ForageError` if a directory is not free for a new run: it holds a run, or other files.

        A run that has saved nothing yet does not count.
        """
        if Run.begun(directory):
            raise ForageError(
                f"{directory} already holds a run; forage resume {directory} continues it, or name another directory."
            )
        check_no_others(directory, ("versions.json", "config.json"), is_of_run)

    @property
    def title(self) -> str:
        return f"{self.config['agent']['part']} on {self.config['spec']['name']}"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the points of the curve."""
        return self._points("metrics.jsonl")

    def _points(self, name: str) -> list[dict[str, Any]]:
        """Return the points of a file that have a value for each member."""
        return read_rows(self.directory / name, lambda row: records.wrong_point(row, self._members))

    @property
    def _members(self) -> int:
        return len(settings_of(self.config["sweep"])) * len(self.config["seeds"])

    def to_pandas(self, evaluated: bool = False) -> DataFrame:
        """Return the points of the curve as a table in long form: a row for each point and member of the run.

        Its columns are `steps`, `seed`, the settings of a sweep, and measures such as `return`; numbers of the whole
        run, such as `seconds`, are the same for each member. `evaluated`: return the evaluations during training
        instead.
        """
        try:
            import pandas
        except ImportError:
            raise ForageError("A table needs pandas: pip install 'forage-rl[pandas]'.") from None
        members = members_of(self.config["sweep"], self.config["seeds"])
        rows = [
            {"steps": row["steps"], **member}
            | {name: value[i] if isinstance(value, list) else value for name, value in row.items() if name != "steps"}
            for row in (self.evaluations if evaluated else self.rows)
            for i, member in enumerate(members)
        ]
        return pandas.DataFrame(rows, columns=None if rows else ["steps", *members[0]])

    def curve(self, evaluated: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps of each point, and each member's mean return there, NaN if no episode ended.

        The returns are those of training episodes or, if `evaluated`, of evaluations. The second array is `member
        point`.
        """
        rows = self.evaluations if evaluated else self.rows
        returns = [[np.nan if v is None else v for v in row["return"]] for row in rows]
        steps = np.array([row["steps"] for row in rows], int)
        return Curve(steps, np.array(returns, float).reshape(len(rows), self._members).T)

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """Evaluations during training, oldest first: `steps`, and each member's mean `return` and other columns.

        The columns are those of `evaluation` with one number for each member, such as the names given in `--env.info`.
        """
        return self._points("evaluations.jsonl")

    @property
    def unit(self) -> str:
        """Return the unit of its steps: environment steps, or updates if it learns from a data set alone."""
        memory = self.config["memory"]
        while isinstance(memory.get("inner"), dict):
            memory = memory["inner"]
        offline = False
        with contextlib.suppress(ForageError):  # of a package that is not installed here
            if target := part_data.stored_target(memory):
                offline = registry.load(target).offline  # pyrefly: ignore[missing-attribute]
        return "updates" if offline else "environment steps"

    @property
    def texts(self) -> list[Texts]:
        """Return the texts of the policy in evaluations, oldest first; empty if episodes are not text."""
        return read_texts(self.directory)

    @property
    def parent(self) -> dict[str, Any] | None:
        """Return the parent run: its directory `run`, its `steps` at that time and more; `None` without one."""
        return self.config.get("parent")

    @property
    def evaluation(self) -> dict[str, Any] | None:
        return read_evaluation(self.directory)

    @property
    def final(self) -> tuple[int, Score] | None:
        """Return the step and the score of the final evaluation; `None` before it, and for a sweep, with its several
        scores.
        """
        evaluation = self.evaluation
        if evaluation is None or self.config["sweep"]:
            return None
        rows = self.rows
        return evaluation.get("steps", rows[-1]["steps"] if rows else self.config["steps"]), self.score

    @property
    def kept_evaluations(self) -> dict[str, dict[str, Any]]:
        """Evaluations of kept checkpoints, by `best` or step."""
        return self._evaluations_by_name("checkpoints.json")

    def _evaluations_by_name(self, file: str) -> dict[str, dict[str, Any]]:
        """Return the evaluations in a file, by name; none if it is missing or empty."""

        def wrong(found: dict[str, Any]) -> str:
            each = [records.wrong_evaluation(one) if isinstance(one, dict) else "one is none" for one in found.values()]
            return next(filter(None, each), "")

        path = self.directory / file
        return records.read_record(path, wrong) if path.exists() and path.stat().st_size else {}

    @property
    def history(self) -> list[dict[str, Any]]:
        """Return the events of the run, oldest first: each with its `event`, its `steps`, and more.

        Events are `extended` (`from` and `to` a total), `stopped` (a `reason`), and `changed`: `settings` by name, each
        with the old and the new value, and `versions`, if the code or the versions are not those that the run started
        with.
        """
        # Older runs have extensions and stops in config.json, and changes in a file of their own.
        before = [{"event": "changed"} | row for row in read_rows(self.directory / "changes.jsonl")]
        before += [row for row in self.config.get("history", []) if isinstance(row, dict)]
        before = sorted((row for row in before if not records.wrong_event(row)), key=lambda row: row["steps"])
        return before + read_rows(self.directory / "history.jsonl", records.wrong_event)

    @property
    def opponents(self) -> dict[str, dict[str, Any]]:
        """Evaluations against other opponents than the run's own, by name."""
        return self._evaluations_by_name("opponents.json")

    @property
    def actions(self) -> str:
        """Return the kind of evaluation actions, unless overridden: `greedy` or `sampled`."""
        return actions_of(self.config, self.evaluation)

    @property
    def choice(self) -> dict[str, Any] | None:
        """Return the choice between greedy and sampled actions with both means; `None` if the run did not choose."""
        return (self.evaluation or {}).get("choice")

    @property
    def evaluation_note(self) -> str:
        """Return `, greedily` if the evaluations during training were greedy, but that of the score sampled actions."""
        return ", greedily" if self.config.get("evaluation_actions") == AUTO and self.actions == "sampled" else ""

    @property
    def visits(self) -> np.ndarray | None:
        """Return the number of steps into each cell of the environment's map, `[member, ...]`, if the run counted
        them.
        """
        path = self.directory / "visits.npy"
        if not path.exists():
            return None
        try:
            found = np.load(path, allow_pickle=False)
            if not isinstance(found, np.ndarray) or found.dtype.kind not in "iuf":
                raise ValueError("it holds no counts")
            return found
        except (OSError, ValueError, EOFError, MemoryError) as error:
            raise ForageError(f"{path} cannot be read: {str(error).rstrip('.')}.") from error

    @property
    def score(self) -> Score:
        """Return the interquartile mean over seeds of the mean evaluation return, with its 95 % interval.

        Raise `ForageError` for a sweep, whose settings are different agents; see `scores`.
        """
        found = self.scores
        if len(found) > 1:
            raise ForageError(
                f"{self.directory} is a sweep of {len(found)} settings, and each has a score of its own: Run.scores."
            )
        return next(iter(found.values()))

    @property
    def scores(self) -> dict[str, Score]:
        """Return the score of each setting of a sweep, such as `learning_rate=0.001`; without a sweep, one under
        `""`.
        """
        if self.evaluation is None:
            raise ForageError(f"{self.directory} has not been evaluated; forage evaluate {self.directory} does it.")
        found = self.evaluation
        if len(found["return"]) != self._members:
            raise ForageError(
                f"{self.directory / 'evaluation.json'} cannot be read: it is of {len(found['return'])} members, and "
                f"the run has {self._members}."
            )
        members = found.get("members") or members_of(self.config["sweep"], self.config["seeds"])
        return by_setting(members, found["return"], within=range_in(found))

    @property
    def normalised_scores(self) -> dict[str, Score] | None:
        """Return the scores on the scale from random actions (0) to the expert (1) of the data set that it learned
        from.

        `None` if the run has no data set, or its file lacks these two returns.
        """
        ends = self.config.get("ends")
        return None if ends is None else {label: normalise_score(one, ends) for label, one in self.scores.items()}

    def part(self, port: str) -> Any:
        """Return a part as configured. Raise `ForageError` if its code is not known here."""
        with guard_imports(self.directory, {port: self.config[port]}):
            return part_data.from_config(self.config[port])

    @property
    def checkpoints(self) -> list[Path]:
        """Return the checkpoints, oldest first."""
        return sorted(path for path in (self.directory / "checkpoints").glob("*.npz") if path.stem.isdecimal())

    @property
    def agent(self) -> Policy:
        """Return the trained agent of the best seed, ready to act."""
        return load_policy(self.directory)

    def act(self, observation: Any) -> Any:
        """Return the evaluation policy's action. For agents with memory, keep one `agent` and `reset` it instead."""
        return self.agent.act(observation)


def check_no_others(directory: Path, ours: Sequence[str], is_ours: Callable[[dict[str, Any]], bool]) -> None:
    """Raise `ForageError` if a directory holds files that are not Forage's, as shown by the files called `ours`.

    Hidden files do not count: no file of Forage has such a name.
    """
    try:
        there = sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return
    except OSError as error:
        raise ForageError(f"Could not make {directory}: {error.strerror or error}.") from error
    for name in ours:
        with contextlib.suppress(ForageError):
            if name in there and is_ours(read_json(directory / name)):
                return
    if there:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise ForageError(
            f"{directory} holds files that are not Forage's ({there[0]}{more}); name a new directory or an empty one."
        )


def is_of_run(found: dict[str, Any]) -> bool:
    """Return whether a file is a run's versions or its configuration."""
    return {"forage", "jax", "equinox"} <= found.keys() or set(NEEDED) <= found.keys()


def normalise_score(one: Score, ends: dict[str, float]) -> Score:
    """Return a score on the scale of 0 for random actions to 1 for the expert."""
    low, high = ends["random"], ends["expert"]
    values = (None if value is None else (value - low) / (high - low) for value in (one.value, one.low, one.high))
    return Score(*values, seeds=one.seeds)  # type: ignore[arg-type]


def plain_score(one: Score) -> dict[str, Any]:
    """Return a score as data."""
    interval = None if one.low is None else [one.low, one.high]
    return {"score": one.value, "interval": interval, "seeds": one.seeds}


def score_data(
    scores: dict[str, Score], evaluation: dict[str, Any], ends: dict[str, float] | None = None
) -> dict[str, Any]:
    """Return a score as data, with the evaluation's details; for a sweep, the scores of all settings.

    `ends`: the returns of the normalised scores 0 and 1, if known.
    """

    each: dict[str, Any] = plain_score(next(iter(scores.values()))) if len(scores) == 1 else {}
    if len(scores) > 1:
        each = {"settings": [{"setting": label} | plain_score(one) for label, one in scores.items()]}
    if ends:
        on_scale = {label: plain_score(normalise_score(one, ends)) for label, one in scores.items()}
        each["normalised"] = on_scale if len(scores) > 1 else next(iter(on_scale.values()))
    return each | {
        name: evaluation.get(name)
        for name in ("episodes", "actions", "choice", "cut", "cut_after", "no_reward", "reward", "opponent")
    }


def draw_curve(run: Run) -> Path:
    steps, values = run.curve()
    path, within = run.directory / "curve.png", range_in(run.evaluation)
    sweep = run.config["sweep"]
    if not sweep:
        curves = [(run.config["agent"]["part"], steps, values)]
        if run.evaluations and not np.isfinite(values).any():  # from a data set, without episodes of training
            curves = [("evaluated", *run.curve(evaluated=True))]
        elif run.evaluations:
            curves = [("in training", steps, values), (f"evaluated{run.evaluation_note}", *run.curve(evaluated=True))]
        last = run.final
        finals = [] if last is None else [(len(curves) - 1, *last)]
        return curve(path, curves, title=run.title, xlabel=run.unit, finals=finals, within=within)
    labels = [label_of(member) for member in members_of(sweep, run.config["seeds"])]
    ordered = [label_of(setting) for setting in sorted(settings_of(sweep), key=lambda setting: tuple(setting.values()))]
    runs = [(label, steps, values[[i for i, x in enumerate(labels) if x == label]]) for label in ordered]
    return curve(path, runs, title=run.title, xlabel=run.unit, ordered=True, within=within)


def step_unit(runs: Iterable[Run]) -> str:
    """Return the unit of the steps of several runs."""
    found = {run.unit for run in runs}
    return found.pop() if len(found) == 1 else "environment steps, or updates"


def draw_sweep(run: Run) -> Path | None:
    """Draw the score of each setting of a sweep against its value (`sweep.png`); return `None` without a sweep.

    In a sweep over several numbers, the first is the axis, and each combination of the others a line.
    """
    if not run.config["sweep"]:
        return None
    name, *others = run.config["sweep"]
    ordered = sorted(settings_of(run.config["sweep"]), key=lambda setting: tuple(setting.values()))
    scores, lines = run.scores, {}
    for setting in ordered:
        line = lines.setdefault(label_of({other: setting[other] for other in others}), ([], []))
        line[0].append(setting[name])
        line[1].append(scores[label_of(setting)])
    drawn = [(label, *line) for label, line in lines.items()]
    return draw_sweep_scores(run.directory / "sweep.png", drawn, run.title, name.replace("_", " "))


def read_json(path: Path) -> dict[str, Any]:
    """Read one of a run's own files."""
    return records.read_record(path)


def write_json(path: Path, data: Any) -> None:
    text = dumps(data, indent=1) + "\n"
    archives.write_atomically(path, text.encode())
