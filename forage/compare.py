"""Runs side by side: one picture of their curves, and which is better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forage.errors import ForageError
from forage.evaluation.comparison import probability_of_improvement
from forage.evaluation.plots import curve
from forage.run import Run


def compare(directories: Sequence[str], output: str) -> list[str]:
    """Draws the curves of several runs into `output`. Returns lines that say how they compare."""
    runs = [Run(directory) for directory in directories]
    environments = {run.config["spec"]["name"] for run in runs}
    if len(environments) > 1:
        raise ForageError(
            f"These runs are of different environments ({', '.join(sorted(environments))}); compare like."
        )
    empty = [run.directory for run in runs if not run.rows]
    if empty:
        raise ForageError(f"{empty[0]} has no metrics yet; train it first.")
    names = [run.config["agent"]["part"] for run in runs]
    labels = names if len(set(names)) == len(names) else [run.directory.name for run in runs]
    path = curve(output, [(label, *run.curve()) for label, run in zip(labels, runs, strict=True)], environments.pop())
    lines = []
    for label, run in zip(labels, runs, strict=True):
        lines.append(f"{label}: return {run.score}" if run.evaluation else f"{label}: not evaluated")
    evaluated = [(label, run) for label, run in zip(labels, runs, strict=True) if run.evaluation]
    if len(evaluated) > 1:
        ranked = sorted(evaluated, key=lambda item: -item[1].score.value)
        (best, first), (second, other) = ranked[:2]
        scores = [np.array((run.evaluation or {})["return"]) for run in (first, other)]
        if min(len(s) for s in scores) > 1:
            chance = probability_of_improvement(scores[0], scores[1])
            assert chance.low is not None and chance.high is not None
            verdict = "better" if chance.low > 0.5 else "not shown to be better"
            lines.append(
                f"{best} is {verdict} than {second}: a seed of it wins with probability {chance.value:.2f} "
                f"[{chance.low:.2f}, {chance.high:.2f}]"
            )
        else:
            lines.append("One seed each says nothing about which is better; train more seeds.")
    return [*lines, str(path)]
