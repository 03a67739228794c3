"""Runs side by side: one picture of their curves, and which is better, by how much and how surely."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from forage.errors import ForageError
from forage.evaluation.comparison import bootstrap_difference, probability_of_improvement
from forage.evaluation.plots import curve
from forage.evaluation.power import seeds_needed
from forage.run import Run


class Compared(NamedTuple):
    """One run among others."""

    label: str
    run: Run
    scores: np.ndarray | None  # of each seed; None where it has not been evaluated


def compare(directories: Sequence[str], output: str) -> list[str]:
    """Draws the curves of several runs into `output`. Returns lines that say how they compare."""
    runs = gather(directories)
    path = curve(output, [(one.label, *one.run.curve()) for one in runs], runs[0].run.config["spec"]["name"])
    return [*verdicts(runs), str(path)]


def gather(directories: Sequence[str]) -> list[Compared]:
    """The runs, each with a label of its own. Raises `ForageError` where they cannot be compared."""
    runs = [Run(directory) for directory in directories]
    for what, found in (
        ("environments", {run.config["spec"]["name"] for run in runs}),
        ("numbers of steps", {f"{run.config['steps']:,}" for run in runs}),
        ("kinds of actions in evaluation", {run.config.get("evaluation_actions", "greedy") for run in runs}),
    ):
        if len(found) > 1:
            raise ForageError(f"These runs are of different {what} ({', '.join(sorted(found))}); compare like.")
    for run in runs:
        if not run.rows:
            raise ForageError(f"{run.directory} has no metrics yet; train it first.")
        if run.config["sweep"]:
            raise ForageError(f"{run.directory} is a sweep, whose settings are different agents; compare single ones.")
    return [Compared(label, run, scores_of(run)) for label, run in zip(labels(runs), runs, strict=True)]


def labels(runs: Sequence[Run]) -> list[str]:
    """The agents' names where they differ, else the directories', else whole paths."""
    for named in (
        lambda run: run.config["agent"]["part"],
        lambda run: run.directory.name,
        lambda run: str(run.directory),
    ):
        found = [named(run) for run in runs]
        if len(set(found)) == len(found):
            break
    return found


def scores_of(run: Run) -> np.ndarray | None:
    """Each seed's mean return in evaluation."""
    if run.evaluation is None:
        return None
    values = np.array(run.evaluation["return"], float)
    if np.isnan(values).any():
        raise ForageError(
            f"{run.directory} has no finite score for {int(np.isnan(values).sum())} of its {len(values)} seeds; a "
            f"comparison needs all of them."
        )
    return values


def verdicts(runs: Sequence[Compared]) -> list[str]:
    """A line for each run, and one for each pair of neighbours from the best down."""
    lines = [f"{one.label}: return {one.run.score if one.scores is not None else 'not evaluated'}" for one in runs]
    scored = [(one.label, one.scores) for one in runs if one.scores is not None]
    ranked = sorted(scored, key=lambda pair: -pair[1].mean())
    for (better, a), (worse, b) in itertools.pairwise(ranked):
        lines.append(verdict(better, a, worse, b))
    return lines


def verdict(better: str, a: np.ndarray, worse: str, b: np.ndarray) -> str:
    """Which of two is better, by how much, how often, and how many seeds would settle what is open."""
    if min(len(a), len(b)) < 2:
        return f"One seed says nothing about others, so whether {better} is better than {worse} is open; train more."
    value, low, high = bootstrap_difference(a, b)
    if value == 0:
        return f"{better} and {worse} have the same mean, {a.mean():.4g}, over {len(a)} and {len(b)} seeds."
    chance = probability_of_improvement(a, b)
    by = f"by {value:.4g} [{low:.4g}, {high:.4g}] on average, and a seed of it wins with probability {chance.value:.2f}"
    by += f" [{chance.low:.2f}, {chance.high:.2f}]"
    if low > 0:
        return f"{better} is better than {worse}, {by}."
    needed = seeds_needed(a, b)
    if needed.seeds is None:
        rest = f"were it the true difference, not even {needed.most} seeds of each would show it"
    else:
        rest = (
            f"were it the true difference, {needed.seeds} seeds of each would show it ({max(1, needed.more or 0)} more)"
        )
    return f"{better} is not shown to be better than {worse}: ahead {by}; {rest}."
