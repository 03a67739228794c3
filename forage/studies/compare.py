"""The comparison of runs: one picture of their curves, and which is better, by how much and how surely."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from forage.config import part_data, registry
from forage.config.environment import resolve_environment
from forage.config.options import AUTO
from forage.core.errors import ForageError
from forage.core.fields import value_of
from forage.core.records import range_in
from forage.environments.plain import from_plain
from forage.evaluation.comparison import probability_of_improvement, welch_difference
from forage.evaluation.plots import curve
from forage.evaluation.power import seeds_needed
from forage.evaluation.statistics import FEW, Ends, Score, clip_interval, score
from forage.runs.changes import without_address
from forage.runs.run import Run, step_unit
from forage.runs.scoring import choice_sentences
from forage.tasks.contexts import Draws
from forage.tasks.distributions import Constant


class ComparedRun(NamedTuple):
    """One run among others."""

    label: str
    run: Run
    scores: np.ndarray | None  # of each seed; None where it has not been evaluated

    @property
    def return_bounds(self) -> Ends | None:
        """Return the smallest and the largest possible return, if they are known."""
        return range_in(self.run.evaluation)

    @property
    def total(self) -> Score:
        """The score over all seeds."""
        assert self.scores is not None
        return score(self.scores, within=self.return_bounds)


def compare(
    directories: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str] = "comparison.png"
) -> list[str]:
    """Draw the curves of runs, or of their directories, into `output`. Return lines that compare them."""
    runs = gather(directories)
    curves = [(one.label, *one.run.curve()) for one in runs]
    finals = [(number, *one.run.final) for number, one in enumerate(runs) if one.run.final is not None]
    title, counted = runs[0].run.config["spec"]["name"], step_unit(one.run for one in runs)
    path = curve(os.fspath(output), curves, title, xlabel=counted, finals=finals, within=runs[0].return_bounds)
    return [*verdicts(runs), str(path)]


def gather(directories: Sequence[str | os.PathLike[str]]) -> list[ComparedRun]:
    """Return the runs, each with a label of its own. Raise `ForageError` if they cannot be compared."""
    if isinstance(directories, str | os.PathLike):
        directories = [directories]
    runs = [Run(directory) for directory in directories]
    places = [run.directory.resolve() for run in runs]
    if twice := next((run for run, place in zip(runs, places, strict=True) if places.count(place) > 1), None):
        raise ForageError(f"{twice.directory} is named twice; name each run once.")
    for what, found in (
        ("environments", {environment_of(run) for run in runs}),
        ("tasks in evaluation", {tasks_of(run) for run in runs}),
        ("numbers of steps", {f"{steps_of(run):,}" for run in runs}),
        ("kinds of actions in evaluation", kinds_of_actions(runs)),
        ("rewards in their scores", {reward_of(run) for run in runs if run.evaluation}),
    ):
        if len(found) > 1:
            raise ForageError(f"These runs are of different {what} ({', '.join(sorted(found))}); compare like.")
    for run in runs:
        if not run.rows and run.evaluation is None:
            raise ForageError(f"{run.directory} has no metrics yet; train it first.")
        if run.config["sweep"]:
            raise ForageError(f"{run.directory} is a sweep, whose settings are different agents; compare single ones.")
    return [ComparedRun(label, run, scores_of(run)) for label, run in zip(labels(runs), runs, strict=True)]


def environment_of(run: Run) -> str:
    """Describe the environment of a run; the texts of two runs are equal if their environments are."""
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
    """Describe the number of cut evaluation episodes; empty if there are none."""
    evaluation = run.evaluation or {}
    cut, every = evaluation.get("cut", 0), np.size(evaluation.get("episode_lengths", ()))
    return f"{cut:,} of {every:,} episodes were cut after {evaluation['cut_after']:,} steps" if cut else ""


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


def labels(runs: Sequence[Run]) -> list[str]:
    """Return the agents' names if they differ, else the directories', else the ends of their paths that differ."""
    parts = [run.directory.resolve().parts for run in runs]
    found = [run.config["agent"]["part"] for run in runs]
    for length in range(1, max(map(len, parts)) + 1):
        if len(set(found)) == len(found):
            break
        found = ["/".join(part[-length:]) for part in parts]
    return found


def scores_of(run: Run) -> np.ndarray | None:
    """Return each seed's mean return in evaluation."""
    if run.evaluation is None:
        return None
    values = np.array(run.evaluation["return"], float)
    if np.isnan(values).any():
        raise ForageError(
            f"{run.directory} has no finite score for {int(np.isnan(values).sum())} of its {len(values)} seeds; a "
            f"comparison needs all of them."
        )
    return values


def verdicts(runs: Sequence[ComparedRun]) -> list[str]:
    """Return a line for each run, and one for each pair of neighbours from the best down."""
    lines = []
    for one in runs:
        more = "".join(f"; {said}" for said in (*choice_sentences(one.run.evaluation or {}), cut_of(one.run)) if said)
        lines.append(f"{one.label}: return {score_of(one)}{more}")
    scored = [(one.label, one.scores) for one in runs if one.scores is not None]
    ranked = sorted(scored, key=lambda pair: -pair[1].mean())
    for (better, a), (worse, b) in itertools.pairwise(ranked):
        lines.append(comparison_words(better, a, worse, b, runs[0].return_bounds))
    if len(ranked) > 2:
        lines.append(
            f"None of these {len(ranked) - 1} comparisons is corrected for their number, and neighbours in a ranking "
            f"were chosen by the scores that compare them."
        )
    return lines


def score_of(one: ComparedRun) -> str:
    """Return a run's score as text, with the plain mean, which verdicts compare, if it is another number."""
    return "not evaluated" if one.scores is None else with_mean(one.total, one.scores)


def with_mean(total: Score, scores: np.ndarray) -> str:
    """Return a score over seeds as text, with their plain mean if the score is an interquartile one."""
    middle, plain = (f"{value:.4g}" for value in (total.value, scores.mean()))
    return str(total) if middle == plain else f"{total}, an interquartile mean; the mean over all seeds is {plain}"


def comparison_words(better: str, a: np.ndarray, worse: str, b: np.ndarray, within: Ends | None = None) -> str:
    """Describe the better of two and the difference; if it is open, the number of seeds that would settle it.

    It also reports the probability that a seed of one beats one of the other, and the cautions that the scores require.
    """
    if min(len(a), len(b)) < 2:
        return f"One seed says nothing about others, so whether {better} is better than {worse} is open; train more."
    value, low, high = welch_difference(a, b)
    if within is not None and np.isfinite(low):
        low, high = clip_interval((low, high), (within[0] - within[1], within[1] - within[0]))
    if value == 0:
        return f"{better} and {worse} have the same mean, {a.mean():.4g}, over {len(a)} and {len(b)} seeds."
    of = f"{len(a)} seeds each" if len(a) == len(b) else f"{len(a)} and {len(b)} seeds"
    interval = (
        f"95 % CI {low:.4g} to {high:.4g}, {of}" if np.isfinite(low) else f"no interval: {of}, without any spread"
    )
    chance = probability_of_improvement(a, b)
    how_often = (
        f"One of {better}'s seeds beats one of {worse}'s with probability {chance.value:.2f}, 95 % CI {chance.low:.2f} "
        f"to {chance.high:.2f}."
    )
    if low > 0:
        said = f"{better} is better than {worse}: its mean return over all seeds is {value:.4g} higher ({interval})."
        return " ".join([said, how_often, *cautions(better, a, worse, b)])
    said = (
        f"Inconclusive: {better}'s mean return over all seeds is {value:.4g} higher than {worse}'s ({interval}), which "
        f"is not significant."
    )
    return f"{said} {how_often} {seeds_to_confirm(a, b)}"


def seeds_to_confirm(a: np.ndarray, b: np.ndarray) -> str:
    """Describe the least number of seeds that confirms the difference of two means, if it is the true one."""
    seen = min(len(a), len(b))
    if seen < FEW:
        return f"Fewer than {FEW} seeds do not say how many would confirm it; train at least {FEW} of each."
    needed = seeds_needed(a, b)
    if needed.seeds is None:
        return f"If that difference is real, not even {needed.most} seeds each would confirm it in 4 of 5 experiments."
    enough = max(needed.seeds, seen + 1)
    return (
        f"If that difference is real, at least {enough} seeds each would confirm it in 4 of 5 experiments "
        f"({enough - seen} more)."
    )


def cautions(better: str, a: np.ndarray, worse: str, b: np.ndarray) -> list[str]:
    """Return cautions for cases in which Welch's interval misses the truth more often than its level.

    They are the rows of the table of errors in docs/trust.md: a side without any spread, or one seed far off.
    """
    said = []
    for label, scores in ((better, a), (worse, b)):
        if np.ptp(scores) == 0:
            said.append(
                f"Caution: all {len(scores)} seeds of {label} have the same score; if a rare seed of it is far off, "
                f"the interval knows nothing of that and is wrong more often than 5 % says (docs/trust.md)."
            )
        elif (odd := outlier(scores)) is not None:
            said.append(
                f"Caution: one seed of {label} is far off the others ({odd:.4g}); such rare seeds make the interval "
                f"wrong more often than 5 % says (docs/trust.md)."
            )
    return said


def outlier(scores: np.ndarray) -> float | None:
    """Return the score with a distance from the median over five times that of all others; None if there is none."""
    off = np.abs(scores - np.median(scores))
    order = np.argsort(off)
    return float(scores[order[-1]]) if len(scores) > 2 and off[order[-1]] > 5 * off[order[-2]] else None
