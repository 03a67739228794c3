"""Verdicts on runs: which is better, by how much and how surely, at their last common step."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from forage.evaluation.comparison import probability_of_improvement
from forage.evaluation.curves import fill_forward
from forage.evaluation.power import seeds_needed
from forage.evaluation.sequential import ENOUGH, look_confidence, outlier, repeated_interval
from forage.evaluation.statistics import FEW, Ends, Score, clip_interval, score
from forage.runs.scoring import choice_sentences
from forage.studies.comparison.curve_files import CurveFile
from forage.studies.comparison.gathering import ComparedRun, cut_of, group_runs, steps_made, steps_of

CLOSE = 0.9  # of the common steps, from which on an evaluation counts as one at their end


def common_end(runs: Sequence[ComparedRun]) -> int | None:
    """Return the last common step of runs of different lengths; `None` if they have the same length.

    Overshooting by part of a rollout still counts as the same length.
    """
    if len({steps_of(one.run) for one in runs}) < 2:
        return None
    return min(steps_made(one.run) for one in runs)


def is_beyond(one: ComparedRun, end: int | None) -> bool:
    """Return whether a run's score is of more steps than the common ones."""
    return end is not None and steps_made(one.run) > end


def cut_curve(steps: np.ndarray, values: np.ndarray, end: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return a curve up to a step."""
    kept = len(steps) if end is None else int(np.searchsorted(steps, end, side="right"))
    return steps[:kept], values[:, :kept]


def compared_scores(runs: Sequence[ComparedRun]) -> tuple[list[np.ndarray | None], str]:
    """Return the numbers that runs in one environment are compared by, and a sentence if they are not their scores.

    Of different lengths, runs are compared at their last common step: by the evaluation there, if each has one in the
    last tenth of the common steps, else by the mean training return over that tenth.
    """
    end = common_end(runs)
    foreign = any(isinstance(one.run, CurveFile) for one in runs)
    if end is None and not foreign:
        return [one.scores for one in runs], ""
    end = end or min(steps_made(one.run) for one in runs)
    lengths = sorted({steps_of(one.run) for one in runs})
    said = f"These runs are compared at step {end:,}"
    if len(lengths) > 1:
        every = " and ".join(f"{number:,}" for number in lengths)
        said = f"These runs are of {every} steps, and are compared over the first {end:,}"
    evaluated = [evaluation_near(one, end) for one in runs]
    if not foreign and all(found is not None for found in evaluated):
        return evaluated, f"{said}, by their evaluations there."
    late = [late_returns(one, end) for one in runs]
    return late, f"{said}, by the mean training return of the last tenth of them, as not all were evaluated there."


def evaluation_near(one: ComparedRun, end: int) -> np.ndarray | None:
    """Return the scores of each seed in the last evaluation within the last tenth before a step."""
    if one.scores is not None and not is_beyond(one, end) and steps_made(one.run) >= CLOSE * end:
        return one.scores
    steps, values = cut_curve(*one.curve(evaluated=True), end)
    if not len(steps) or steps[-1] < CLOSE * end or np.isnan(values[:, -1]).any():
        return None
    return values[:, -1]


def late_returns(one: ComparedRun, end: int) -> np.ndarray | None:
    """Return each seed's mean training return over the last tenth of the steps before a step."""
    steps, values = cut_curve(*one.curve(), end)
    late = fill_forward(values)[:, steps > CLOSE * end] if len(steps) else np.zeros((0, 0))
    if not late.size:
        late = fill_forward(values)[:, -1:]
    found = late.mean(axis=1) if late.size else np.array([np.nan])
    return None if np.isnan(found).any() else found


def verdicts(runs: Sequence[ComparedRun], looks: int = 1) -> list[str]:
    """Return a line for each run, and in each environment one for each pair of neighbours from the best down."""
    groups = group_runs(runs)
    lines = [line for group in groups.values() for line in group_verdicts(group, looks)]
    if len(groups) > 1:
        lines.append(
            "Runs in different environments are not compared with each other; forage study aggregates over them."
        )
    return lines


def group_verdicts(runs: Sequence[ComparedRun], looks: int = 1) -> list[str]:
    """Return the lines about runs in one environment."""
    lines = []
    for one in runs:
        more = "".join(f"; {said}" for said in (*choice_sentences(one.run.evaluation or {}), cut_of(one.run)) if said)
        lines.append(f"{one.name}: return {score_of(one)}{more}")
    numbers, how = compared_scores(runs)
    if how and len(runs) > 1:
        lines.append(how)
        lines += [
            f"{one.name}: {with_mean(score(values), values)}"
            for one, values in zip(runs, numbers, strict=True)
            if values is not None
        ]
    scored = [(one.name, values) for one, values in zip(runs, numbers, strict=True) if values is not None]
    ranked = sorted(scored, key=lambda pair: -pair[1].mean())
    for (better, a), (worse, b) in itertools.pairwise(ranked):
        lines.append(comparison_words(better, a, worse, b, runs[0].return_bounds, looks))
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


def comparison_words(
    better: str, a: np.ndarray, worse: str, b: np.ndarray, within: Ends | None = None, looks: int = 1
) -> str:
    """Describe the better of two and the difference; if it is open, the number of seeds that would settle it.

    It also reports the probability that a seed of one beats one of the other, and the cautions that the scores require.
    `looks`: the most numbers of seeds at which these are compared; the interval of each look is wider for more of them.
    """
    if min(len(a), len(b)) < 2:
        return f"One seed says nothing about others, so whether {better} is better than {worse} is open; train more."
    value, low, high = repeated_interval(a, b, looks)
    if within is not None and np.isfinite(low):
        low, high = clip_interval((low, high), (within[0] - within[1], within[1] - within[0]))
    if value == 0:
        return f"{better} and {worse} have the same mean, {a.mean():.4g}, over {len(a)} and {len(b)} seeds."
    level = "95 % CI"
    if looks > 1:
        level = f"{100 * look_confidence(looks):.1f} % CI, so 95 % over {looks} looks,"
    of = f"{len(a)} seeds each" if len(a) == len(b) else f"{len(a)} and {len(b)} seeds"
    interval = (
        f"{level} {low:.4g} to {high:.4g}, {of}" if np.isfinite(low) else f"no interval: {of}, without any spread"
    )
    if looks > 1 and not np.isfinite(low):
        interval = f"no interval: {of}, without spread or with a lone score far off, which {ENOUGH} seeds would decide"
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
