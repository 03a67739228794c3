"""A run on disk: configuration, progress, metrics, checkpoints, resume.

DIRECTORY/config.json        what was asked for: parts, settings, steps, seeds
DIRECTORY/versions.json      versions, git state and machine
DIRECTORY/metrics.jsonl      a line for each point of the curve; every value a list over members
DIRECTORY/checkpoints/       the two newest checkpoints: everything to continue from
DIRECTORY/agent.npz          the agents alone, to act with
DIRECTORY/evaluation.json    episodes played apart from training, and the score
DIRECTORY/evaluations.jsonl  the same at points during training, where that was asked for
DIRECTORY/curve.png
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from forage.config.saved import load_policy
from forage.core import checkpoint
from forage.core.sweep import members_of
from forage.core.types import ForageError
from forage.evaluation.plots import curve
from forage.evaluation.statistics import Score, Statistic, interquartile_mean, score
from forage.loop.policy import AUTO, Policy, actions_of
from forage.runs.curve import read_rows


class Run:
    """A run's directory, seen from outside."""

    def __init__(self, directory: str | os.PathLike[str]):
        self.directory = Path(directory)
        if not (self.directory / "config.json").exists():
            raise ForageError(f"{self.directory} is not a run: it has no config.json.")
        self.config = read_json(self.directory / "config.json")

    def __fspath__(self) -> str:
        """Return the directory, so that a run can be given wherever a directory can."""
        return str(self.directory)

    @staticmethod
    def begun(directory: Path) -> bool:
        """Whether a directory holds a run that has saved something, or what is left of one that is over."""
        if not (directory / "config.json").exists():
            return False
        return (directory / "evaluation.json").exists() or any((directory / "checkpoints").glob("*.npz"))

    @property
    def title(self) -> str:
        return f"{self.config['agent']['part']} on {self.config['spec']['name']}"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The points of the curve."""
        return read_rows(self.directory / "metrics.jsonl")

    def curve(self, evaluated: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Steps of each point, and each member's mean return there, NaN where no episode ended: `member point`.

        Of training's own episodes, or `evaluated`, of those played apart from it.
        """
        rows = self.evaluations if evaluated else self.rows
        returns = [[np.nan if v is None else v for v in row["return"]] for row in rows]
        return np.array([row["steps"] for row in rows]), np.array(returns, float).reshape(len(rows), -1).T

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """Evaluations during training, oldest first: `steps`, and each member's mean `return` and other columns.

        The columns are those of `evaluation` with one number for each member, such as what `--env.info` names.
        """
        return read_rows(self.directory / "evaluations.jsonl")

    @property
    def evaluation(self) -> dict[str, Any] | None:
        path = self.directory / "evaluation.json"
        return read_json(path) if path.exists() else None

    @property
    def opponents(self) -> dict[str, dict[str, Any]]:
        """Evaluations against other opponents than the run's own, by their names."""
        path = self.directory / "opponents.json"
        return read_json(path) if path.exists() else {}

    @property
    def actions(self) -> str:
        """How the agent plays unless told otherwise: `greedy` or `sampled`."""
        return actions_of(self.config, self.evaluation)

    @property
    def choice(self) -> dict[str, Any] | None:
        """Which of greedy and sampled actions did better, where that was left to the run, and both means."""
        return (self.evaluation or {}).get("choice")

    @property
    def evaluated_how(self) -> str:
        """What sets the evaluations during training apart from that of the score: they are greedy unless told."""
        return ", greedily" if self.config.get("evaluation_actions") == AUTO and self.actions == "sampled" else ""

    @property
    def visits(self) -> np.ndarray | None:
        """How many steps led to each place of the environment's map: `[member, ...]`, in a run that measured it."""
        path = self.directory / "visits.npy"
        return np.load(path) if path.exists() else None

    @property
    def score(self) -> Score:
        """The interquartile mean over seeds of the mean evaluation return, with its 95 % interval.

        Raises `ForageError` for a sweep, whose settings are different agents; see `scores`.
        """
        found = self.scores
        if len(found) > 1:
            raise ForageError(
                f"{self.directory} is a sweep of {len(found)} settings, and each has a score of its own: Run.scores."
            )
        return next(iter(found.values()))

    @property
    def scores(self) -> dict[str, Score]:
        """The score of each setting of a sweep, such as `learning_rate=0.001`; of a run without one under `""`."""
        if self.evaluation is None:
            raise ForageError(f"{self.directory} has not been evaluated; forage evaluate {self.directory} does it.")
        return by_setting(self.evaluation["members"], self.evaluation["return"])

    @property
    def checkpoints(self) -> list[Path]:
        """Oldest first."""
        return sorted((self.directory / "checkpoints").glob("*.npz"))

    @property
    def agent(self) -> Policy:
        """The trained agent of the best seed, ready to act."""
        return load_policy(self.directory)

    def act(self, observation: Any) -> Any:
        """The evaluation policy's action; for agents with memory keep one `agent` instead and `reset` it."""
        return self.agent.act(observation)


def label_of(member: dict[str, Any]) -> str:
    """What sets a member of a sweep apart from those of other settings: `learning_rate=0.001`; else nothing."""
    return ", ".join(f"{name}={value:g}" for name, value in member.items() if name != "seed")


def by_setting(
    members: list[dict[str, Any]], values: list[float | None], statistic: Statistic = interquartile_mean
) -> dict[str, Score]:
    """The score of each setting, over its seeds."""
    groups: dict[str, list[float | None]] = {}
    for member, value in zip(members, values, strict=True):
        groups.setdefault(label_of(member), []).append(value)
    return {label: score(np.array(group, float), statistic=statistic) for label, group in groups.items()}


def plain(one: Score) -> dict[str, Any]:
    """A score as data."""
    interval = None if one.low is None else [one.low, one.high]
    return {"score": one.value, "interval": interval, "seeds": one.seeds}


def scored(scores: dict[str, Score], evaluation: dict[str, Any]) -> dict[str, Any]:
    """A score as data, with what it is a score of; of a sweep, every setting's."""

    each = plain(next(iter(scores.values()))) if len(scores) == 1 else {}
    if len(scores) > 1:
        each = {"settings": [{"setting": label} | plain(one) for label, one in scores.items()]}
    return each | {
        name: evaluation.get(name)
        for name in ("episodes", "actions", "choice", "cut", "cut_after", "reward", "opponent")
    }


def draw_curve(run: Run) -> Path:
    steps, values = run.curve()
    path = run.directory / "curve.png"
    sweep = run.config["sweep"]
    if not sweep:
        curves = [(run.config["agent"]["part"], steps, values)]
        if run.evaluations and not np.isfinite(values).any():  # from a data set, without episodes of training
            curves = [("evaluated", *run.curve(evaluated=True))]
        elif run.evaluations:
            curves = [("in training", steps, values), (f"evaluated{run.evaluated_how}", *run.curve(evaluated=True))]
        return curve(path, curves, title=run.title)
    members = members_of(sweep, run.config["seeds"])
    labels = [label_of(member) for member in members]
    runs = [(label, steps, values[[i for i, x in enumerate(labels) if x == label]]) for label in dict.fromkeys(labels)]
    return curve(path, runs, title=run.title)


def read_json(path: Path) -> dict[str, Any]:
    """Reads one of a run's own files."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise ForageError(f"{path.parent} is not a whole run: it has no {path.name}.") from None
    except (OSError, ValueError) as error:
        raise ForageError(f"{path} cannot be read: {error}.") from error


def write_json(path: Path, data: Any) -> None:
    text = json.dumps(data, indent=1) + "\n"
    checkpoint.write_atomically(path, lambda file: file.write(text.encode()))
