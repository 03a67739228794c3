"""Statistics over seeds and tasks: aggregates and their intervals.

The seed is the unit of chance. A score is one number a seed; episodes of one seed are averaged before they come here.
Scores of several tasks are a matrix `seeds tasks`, on a scale that makes tasks comparable (see `references`).

Source: Agarwal, Schwarzer, Castro, Courville, Bellemare, 2021, "Deep Reinforcement Learning at the Edge of the
Statistical Precipice", arXiv:2108.13264; Efron, 1979, "Bootstrap Methods: Another Look at the Jackknife".
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from forage.core.errors import ForageError
from forage.core.sweep import label_of

Scores = Float[np.ndarray, " seeds"] | Float[np.ndarray, "seeds tasks"]
Statistic = Callable[..., Any]
"""Called as `statistic(array, axis=(-2, -1))`: one number for each matrix `seeds tasks`. `numpy.max` is one."""
Axis = int | tuple[int, ...] | None
Ends = tuple[float, float]
"""The smallest and the largest possible number; infinite without a limit."""

FEW = 5  # with fewer seeds a percentile bootstrap is far too narrow, and equal scores are no sign of certainty
CHUNK = 4_000_000  # resampled numbers held at once: 32 MB


@dataclasses.dataclass(frozen=True)
class Score:
    """A number and its interval. `low` and `high` are None for a single seed."""

    value: float
    low: float | None
    high: float | None
    seeds: int

    def __repr__(self) -> str:
        return f"<Score {self}>"

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{_digits(self.value, self.value)} (1 seed, no interval)"
        largest = max(abs(self.value), abs(self.low), abs(self.high))
        value, low, high = (_digits(x, largest) for x in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}] ({self.seeds} seeds)"


def interquartile_mean(scores: Float[np.ndarray, "*shape"], axis: Axis = None) -> Any:
    """Return the mean of the middle half.

        n scores in order, floor(n / 4) dropped at either end, the rest averaged

    Less swayed by one odd seed than the mean, and needs fewer seeds than the median. With fewer than 4 scores nothing
    is dropped. Equal to `scipy.stats.trim_mean(scores, 0.25, axis)`, with `axis=None` for all the numbers at once;
    several axes are pooled. NaN if any score is.
    Source: Agarwal et al., 2021, arXiv:2108.13264, section 4.3.
    """
    ordered = np.sort(_pool("An interquartile mean", scores, axis), axis=-1)
    n = ordered.shape[-1]
    middle = ordered[..., n // 4 : n - n // 4].mean(axis=-1)
    # NaN sorts last, where it would be dropped as if it were a high score.
    return np.where(np.isnan(ordered[..., -1]), np.nan, middle)[()]


def name_of_mean(seeds: int) -> str:
    """Return the name of an interquartile mean over `seeds`: below 4, none is left out, so it is the plain mean."""
    return "interquartile mean" if seeds >= 4 else "mean"


def mean(scores: Float[np.ndarray, "*shape"], axis: Axis = None) -> Any:
    """Return the mean over seeds and tasks. A single outlier can move it anywhere."""
    return _pool("A mean", scores, axis).mean(axis=-1)


def median(scores: Float[np.ndarray, "*shape"], axis: Axis = None) -> Any:
    """Return the median over all seeds and tasks; for an even number, the mean of the two middle ones.

    The median of a benchmark in the literature is `task_median`.
    """
    return np.median(_pool("A median", scores, axis), axis=-1)


def task_median(scores: Float[np.ndarray, "*shape seeds tasks"], axis: tuple[int, int] = (-2, -1)) -> Any:
    """Return the middle task: the median over tasks of the mean over seeds, as benchmarks report it.

    `axis` names the axis of seeds and that of tasks. Of one task it is the mean. It ignores what happens on all but
    the middle tasks, and with few seeds it is biased.
    Source: Bellemare et al., 2013, arXiv:1207.4708; Agarwal et al., 2021, arXiv:2108.13264, section 4.3.
    """
    scores = np.asarray(scores, np.float64)
    if scores.ndim < 2:
        raise ForageError(f"A median over tasks needs scores of shape (seeds, tasks), and got {scores.shape}.")
    scores = np.moveaxis(scores, axis, (-2, -1))
    if scores.shape[-1] == 0:
        raise ForageError("A median over tasks needs at least one task, and there is none.")
    return np.median(mean(scores, axis=-2), axis=-1)


def optimality_gap(scores: Float[np.ndarray, "*shape"], axis: Axis = None, gamma: float = 1.0) -> Any:
    """Return the mean shortfall of scores below `gamma`, not offset by higher scores. Lower is better.

        gamma - mean(min(score, gamma))

    `gamma` is the score that is good enough: 1 is human level for human-normalised scores. For another `gamma`
    the statistic of a bootstrap is `functools.partial(optimality_gap, gamma=...)`.
    Source: Agarwal et al., 2021, arXiv:2108.13264, section 4.3.
    """
    if not math.isfinite(gamma):
        raise ForageError(f"gamma is the score that is good enough, a finite number such as 1, and was {gamma}.")
    return gamma - np.minimum(_pool("An optimality gap", scores, axis), gamma).mean(axis=-1)


def bootstrap_interval(
    scores: Scores,
    statistic: Statistic = interquartile_mean,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """Compute the percentile bootstrap over seeds: quantiles of `statistic` for seeds resampled with replacement."""
    scores = check_scores("bootstrap_interval", scores)
    seeds, tasks = scores.shape
    check_interval(seeds, confidence, resamples)
    random = np.random.default_rng(seed)
    rows = max(1, CHUNK // scores.size)
    found = []
    for start in range(0, resamples, rows):
        drawn = random.integers(seeds, size=(min(rows, resamples - start), seeds, tasks))
        found.append(statistic(scores[drawn, np.arange(tasks)], axis=(-2, -1)))
    low, high = quantiles(np.concatenate(found), confidence)
    return float(low), float(high)


def student_interval(scores: Float[np.ndarray, " seeds"], confidence: float = 0.95) -> tuple[float, float]:
    """Compute Student's interval of the mean, which is wide enough for few seeds.

        mean +- t s / sqrt(n),  s^2 the variance with n - 1 in its denominator
        t: the quantile (1 + confidence) / 2 of Student's t with n - 1 degrees of freedom

    It holds the mean of normal scores as often as it says, for any number of seeds from 2 on, and that of skewed ones
    less often. It knows no limits of scores. Without any spread it is the mean alone.
    Source: Student, 1908, "The Probable Error of a Mean".
    """
    scores = check_scores("student_interval", scores)
    if scores.shape[1] != 1:
        raise ForageError(f"student_interval takes one number for each seed, and got {scores.shape[1]} tasks.")
    check_interval(len(scores), confidence, resamples=1)
    middle = float(scores.mean())
    if np.ptp(scores) == 0:
        return float(scores[0, 0]), float(scores[0, 0])
    from scipy.special import stdtrit  # slow to import, which only those who ask should pay

    t = float(stdtrit(len(scores) - 1, (1 + confidence) / 2))
    half = t * float(scores.std(ddof=1)) / math.sqrt(len(scores))
    return middle - half, middle + half


def score(
    per_seed_scores: Scores,
    confidence: float = 0.95,
    resamples: int = 2000,
    statistic: Statistic = interquartile_mean,
    within: Ends | None = None,
) -> Score:
    """Compute a statistic of one number for each seed (or each seed and task), with its interval.

    `within`: the least and the most that a score can be, which the interval does not leave.

    The interval is a bootstrap's. With fewer than 5 seeds of a single task that would hold too little, and the interval
    of a mean or an interquartile mean (below 4 seeds the same) is Student's, of the mean.
    """
    scores = check_scores("score", per_seed_scores)
    value = float(statistic(scores, axis=(-2, -1)))
    if within is not None and not within[0] <= value <= within[1]:
        within = None  # it was no range of these
    if len(scores) == 1:
        return Score(value, None, None, 1)
    if len(scores) < FEW and scores.shape[1] == 1 and statistic in (interquartile_mean, mean):
        return Score(value, *clip_interval(student_interval(scores[:, 0], confidence), within), seeds=len(scores))
    return Score(value, *bootstrap_interval(scores, statistic, confidence, resamples), seeds=len(scores))


def by_setting(
    members: list[dict[str, Any]],
    values: list[float | None],
    statistic: Statistic = interquartile_mean,
    within: Ends | None = None,
) -> dict[str, Score]:
    """Return the score of each setting over its seeds. `within`: the smallest and the largest possible value."""
    groups: dict[str, list[float | None]] = {}
    for member, value in zip(members, values, strict=True):
        groups.setdefault(label_of(member), []).append(value)
    return {label: score(np.array(group, float), statistic=statistic, within=within) for label, group in groups.items()}


def clip_interval(interval: tuple[float, float], within: Ends | None) -> tuple[float, float]:
    """Return the part of an interval that is within the least and the most that its number can be.

    It holds the number as often as the whole interval does, as the rest holds it never.
    """
    if within is None:
        return interval
    low, high = (min(max(end, within[0]), within[1]) for end in interval)
    return low, high


def quantiles(found: np.ndarray, confidence: float) -> np.ndarray:
    """Return the ends of the middle `confidence` of resampled statistics, along the last axis."""
    return np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2], axis=-1)


def check_scores(name: str, scores: Any) -> np.ndarray:
    """Return scores as `seeds tasks`. Raise `ForageError` if they cannot be summarised."""
    scores = np.asarray(scores, np.float64)
    if scores.ndim not in (1, 2) or scores.size == 0:
        raise ForageError(
            f"{name} needs scores of shape (seeds,) or (seeds, tasks), at least one of each, and got {scores.shape}."
        )
    bad = int(np.sum(~np.isfinite(scores)))
    if bad:
        raise ForageError(
            f"{name} got {bad} of {scores.size} scores that are not finite; every seed needs a score, so run each "
            f"until an episode has ended, and give a seed that diverged the lowest score there is."
        )
    return scores[:, None] if scores.ndim == 1 else scores


def check_interval(seeds: int, confidence: float, resamples: int) -> None:
    """Raise `ForageError` for an interval without meaning."""
    if seeds < 2:
        raise ForageError("One seed says nothing about others: an interval needs at least 2 seeds, better 10.")
    if not 0 < confidence < 1:
        raise ForageError(f"confidence lies between 0 and 1, such as 0.95, and was {confidence}.")
    if resamples < 1:
        raise ForageError(f"A bootstrap needs at least 1 resample, better 2000, and was given {resamples}.")


def _digits(x: float, largest: float) -> str:
    """Format a number with the decimals that suit the largest in its row: 12346, 495.2, 5.21, 0.521, 0.0521."""
    if largest == 0:
        return f"{x:.1f}"
    magnitude = math.floor(math.log10(abs(largest)))
    return f"{x:.{0 if magnitude >= 4 else max(1, 2 - magnitude)}f}"


def _pool(name: str, scores: Any, axis: Axis) -> np.ndarray:
    """With `axis`, or all axes, as one axis at the end."""
    scores = np.asarray(scores, np.float64)
    axes = tuple(range(scores.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    moved = np.moveaxis(scores, axes, range(-len(axes), 0))
    shape = moved.shape[: moved.ndim - len(axes)]
    length = math.prod(moved.shape[moved.ndim - len(axes) :])
    if length == 0:
        raise ForageError(f"{name} needs at least one score, and there is none.")
    return moved.reshape(*shape, length)
