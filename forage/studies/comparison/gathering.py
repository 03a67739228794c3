"""Runs side by side: their labels, environments and scores, and whether they can be compared."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forage.config import part_data, registry
from forage.config.environment import resolve_environment
from forage.config.options import AUTO
from forage.core.errors import ForageError
from forage.core.fields import value_of
from forage.core.records import range_in
from forage.core.sweep import label_of, members_of
from forage.environments.plain import from_plain
from forage.evaluation.statistics import Ends, Score, score
from forage.runs.changes import without_address
from forage.runs.run import Run
from forage.runs.scoring import no_reward_sentence
from forage.studies.comparison.curve_files import CurveFile
from forage.studies.comparison.remarks import metric_curve
from forage.tasks.contexts import Draws
from forage.tasks.distributions import Constant


class ComparedRun(NamedTuple):
    """One run among others, one setting of a sweep, or the curves of another program."""

    label: str
    run: Run
    scores: np.ndarray | None  # of each seed; None where it has not been evaluated
    group: str = ""  # the environment, where runs are of several
    members: tuple[int, ...] = ()  # of a sweep, those of this setting
    setting: str = ""  # of a sweep

    @property
    def name(self) -> str:
        """Return the label, with the environment where runs are of several."""
        return f"{self.label} in {self.group}" if self.group else self.label

    @property
    def return_bounds(self) -> Ends | None:
        """Return the smallest and the largest possible return, if they are known."""
        return range_in(self.run.evaluation)

    @property
    def total(self) -> Score:
        """The score over all seeds."""
        assert self.scores is not None
        return score(self.scores, within=self.return_bounds)

    @property
    def seeds(self) -> list[Any]:
        return self.run.config["seeds"]

    @property
    def final(self) -> tuple[int, Score] | None:
        """Return the step and the score of the final evaluation, if there was one."""
        return None if self.scores is None else (steps_made(self.run), self.total)

    def curve(self, evaluated: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps, and the return of each seed there."""
        steps, values = self.run.curve(evaluated)
        return steps, values[list(self.members)] if self.members else values

    def metric(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps of the points that have a metric, and each seed's value there."""
        steps, values = metric_curve(self.run.rows, name)
        return steps, values[list(self.members)] if self.members and len(values) else values


def gather(directories: Sequence[str | os.PathLike[str]], labels: Sequence[str] = ()) -> list[ComparedRun]:
    """Return the runs, each with a label of its own. Raise `ForageError` if they cannot be compared.

    Each setting of a sweep is one of them. Runs of one environment must have the same tasks, actions and rewards.
    """
    if isinstance(directories, str | os.PathLike):
        directories = [directories]
    runs = [CurveFile(place) if is_curve_file(place) else Run(place) for place in directories]
    places = [run.directory.resolve() for run in runs]
    if twice := next((run for run, place in zip(runs, places, strict=True) if places.count(place) > 1), None):
        raise ForageError(f"{twice.directory} is named twice; name each run once.")
    if labels and len(labels) != len(runs):
        raise ForageError(f"Labels are one for each run, {len(runs)} here, and not {len(labels)}.")
    environments = list(dict.fromkeys(environment_of(run) for run in runs if not isinstance(run, CurveFile)))
    if len(environments) > 1 and (foreign := next((run for run in runs if isinstance(run, CurveFile)), None)):
        raise ForageError(
            f"{foreign.directory} does not say its environment, and the runs beside it are of "
            f"{', '.join(environments)}; compare it with runs of one."
        )
    found: dict[int, ComparedRun] = {}
    for environment in environments or [""]:
        group = [(at, run) for at, run in enumerate(runs) if environment_of(run) in ("", environment)]
        check_alike([run for _, run in group if not isinstance(run, CurveFile)])
        names = [labels[at] for at, _ in group] if labels else run_labels([run for _, run in group])
        where = environment if len(environments) > 1 else ""
        for (at, run), label in zip(group, names, strict=True):
            found[at] = ComparedRun(label, run, None if run.config["sweep"] else scores_of(run), where)
    return [one for at in sorted(found) for one in settings_in(found[at])]


def is_curve_file(place: str | os.PathLike[str]) -> bool:
    return isinstance(place, str | os.PathLike) and Path(place).suffix.lower() == ".csv"


def check_alike(runs: Sequence[Run]) -> None:
    """Raise `ForageError` unless the scores of these runs in one environment mean the same."""
    for what, found in (
        ("tasks in evaluation", {tasks_of(run) for run in runs}),
        ("kinds of actions in evaluation", kinds_of_actions(runs)),
        ("rewards in their scores", {reward_of(run) for run in runs if run.evaluation}),
    ):
        if len(found) > 1:
            raise ForageError(f"These runs are of different {what} ({', '.join(sorted(found))}); compare like.")
    for run in runs:
        if not run.rows and run.evaluation is None:
            raise ForageError(f"{run.directory} has no metrics yet; train it first.")


def settings_in(one: ComparedRun) -> list[ComparedRun]:
    """Return the settings of a sweep, each with its own scores; any other run as it is."""
    sweep = one.run.config["sweep"]
    if not sweep:
        return [one]
    members = [label_of(member) for member in members_of(sweep, one.seeds)]
    scores = None if one.run.evaluation is None else np.array(one.run.evaluation["return"], float)
    found = []
    for setting in dict.fromkeys(members):
        rows = tuple(at for at, name in enumerate(members) if name == setting)
        own = None if scores is None else finite_scores(one.run, scores[list(rows)])
        found.append(one._replace(label=f"{one.label} {setting}", scores=own, members=rows, setting=setting))
    return found


def group_runs(runs: Sequence[ComparedRun]) -> dict[str, list[ComparedRun]]:
    """Return the runs of each environment; under `""` if there is only one."""
    groups: dict[str, list[ComparedRun]] = {}
    for one in runs:
        groups.setdefault(one.group, []).append(one)
    return groups


def environment_of(run: Run) -> str:
    """Describe the environment of a run; the texts of two runs are equal if their environments are.

    Curves of other programs do not say theirs.
    """
    if isinstance(run, CurveFile):
        return ""
    stored, name = run.config["environment"], run.config["spec"]["name"]
    if "object" in stored:  # of which only the class is kept, so what was made of it has to tell the rest
        name += (
            f", {without_address(stored['object'])}, of {run.config['spec'].get('horizon') or 'any number of'} steps"
        )
    if options := stored.get("options"):
        name += f" with {', '.join(f'{option}={options[option]}' for option in sorted(options))}"
    if wrapped := stored.get("wrap"):
        name += f" in {', '.join(wrapped)}"
    return name


def tasks_of(run: Run) -> str:
    """Describe the tasks that evaluation draws. Those of training may be others."""
    stored = run.config.get("tasks", {"part": "same"})
    try:
        tasks: Any = (
            run.part("tasks").evaluation() if "tasks" in run.config else part_data.from_config(stored).evaluation()
        )
        if isinstance(tasks, Draws):
            tasks = without_own(tasks, run.config["environment"])
    except ForageError:  # a Python object, or a part that is not here: what is kept of it has to do
        return in_words(stored)
    return in_words(part_data.to_config(tasks))


def without_own(tasks: Draws, stored: Mapping[str, Any]) -> Any:
    """Return the draws without those that equal the environment's own values, as tests in its usual physics do."""
    if "id" not in stored:
        return tasks
    _, environment, _ = resolve_environment(stored["id"], from_plain(stored.get("options", {})), stored.get("wrap", ()))

    def own(one: Any) -> bool:
        return isinstance(one, Constant) and np.allclose(value_of(environment, one.field), one.value, rtol=1e-6, atol=0)

    left = tuple(one for one in tasks.chosen if not own(one))
    return Draws(left, tasks.region) if left else registry.build("tasks", "same", {})


def steps_of(run: Run) -> int:
    """Return the steps of each seed at a run's score: its configured total, or less if it was evaluated sooner.

    Overshooting by part of a rollout still counts as the same budget.
    """
    asked = run.config["steps"]
    return asked if run.evaluation is None else min(asked, run.evaluation.get("steps", asked))


def steps_made(run: Run) -> int:
    """Return the steps of each seed at a run's score, including the overshoot of the last rollout."""
    last = run.rows[-1]["steps"] if run.rows else 0
    return last if run.evaluation is None else run.evaluation.get("steps", last)


def actions_of(run: Run) -> str:
    """Return the actions of evaluation: `greedy` or `sampled`; `auto`, if that is still open."""
    asked = run.config.get("evaluation_actions", "greedy")
    return asked if run.evaluation is None else run.evaluation.get("actions", asked)


def kinds_of_actions(runs: Sequence[Run]) -> set[str]:
    """Return the kinds of actions in evaluations, a single kind if every run chose automatically."""
    asked = {(run.evaluation or {}).get("asked", run.config.get("evaluation_actions")) for run in runs}
    return {AUTO} if asked == {AUTO} else {actions_of(run) for run in runs}


def reward_of(run: Run) -> str:
    """Return the reward of a run's score; runs evaluated by older versions have the sum of all."""
    names = run.config["spec"]["reward_names"]
    return (run.evaluation or {}).get("reward") or " + ".join(f"1 {name}" for name in names) or "the reward"


def cut_of(run: Run) -> str:
    """Describe the answers left out of a run's score and its cut evaluation episodes; empty if there are none."""
    evaluation = run.evaluation or {}
    cut, every = evaluation.get("cut", 0), np.size(evaluation.get("episode_lengths", ()))
    said = f"{cut:,} of {every:,} episodes were cut after {evaluation['cut_after']:,} steps" if cut else ""
    return "; ".join(one for one in (no_reward_sentence(evaluation), said) if one)


MARKS = ("part", part_data.ORIGIN)


def in_words(value: Any) -> str:
    """Return a part's configuration in a line: `uniform(field=length, low=0.25, high=1.0)`."""
    if isinstance(value, Mapping) and "part" in value:
        fields = ", ".join(f"{name}={in_words(inner)}" for name, inner in value.items() if name not in MARKS)
        name = value["part"].rpartition(":")[2].lower()
        return f"{name}({fields})" if fields else name
    if isinstance(value, list):
        return f"[{', '.join(map(in_words, value))}]"
    return without_address(str(value))


def run_labels(runs: Sequence[Run]) -> list[str]:
    """Return the agents' names if they differ, else the directories', else the ends of their paths that differ.

    A class of a person's own is named without its file, as in a run's own lines.
    """
    parts = [run.directory.resolve().parts for run in runs]
    found = [run.config["agent"]["part"].rpartition(":")[2] for run in runs]
    for length in range(1, max(map(len, parts)) + 1):
        if len(set(found)) == len(found):
            break
        found = ["/".join(part[-length:]) for part in parts]
    return found


def scores_of(run: Run) -> np.ndarray | None:
    """Return each seed's mean return in evaluation."""
    return None if run.evaluation is None else finite_scores(run, np.array(run.evaluation["return"], float))


def finite_scores(run: Run, values: np.ndarray) -> np.ndarray:
    """Return the scores of seeds. Raise `ForageError` if one is missing."""
    if np.isnan(values).any():
        raise ForageError(
            f"{run.directory} has no finite score for {int(np.isnan(values).sum())} of its {len(values)} seeds; a "
            f"comparison needs all of them."
        )
    return values
