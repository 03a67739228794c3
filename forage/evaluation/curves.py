"""Learning curves of many seeds and tasks as one curve with a band, and as one number: the area under each.

Source: Agarwal et al., 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice", arXiv:2108.13264
(sample-efficiency curves, section 4.3); Machado et al., 2018, "Revisiting the Arcade Learning Environment",
arXiv:1709.06009 (performance during training rather than at its end, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from forage.core.errors import ForageError
from forage.evaluation import statistics
from forage.evaluation.statistics import (
    FEW,
    Ends,
    Statistic,
    check_interval,
    clip_interval,
    interquartile_mean,
    mean,
    quantiles,
    student_interval,
)

Values = Float[np.ndarray, "seeds points"] | Float[np.ndarray, "seeds tasks points"]


class Area(NamedTuple):
    """The mean height of each curve between the steps `start` and `end`, the same for all. `seeds` or `seeds tasks`."""

    value: np.ndarray
    start: float
    end: float


def aggregate_curve(
    steps: Float[np.ndarray, " points"],
    values: Values,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    statistic: Statistic = interquartile_mean,
    within: Ends | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Learning curves of several seeds as one: `(steps, value, low, high)`, each of length `points`.

    Curves of several tasks, `seeds tasks points`, make a sample-efficiency curve: `statistic` (the interquartile mean)
    of all seeds and tasks at each point. They need a common scale (see `references`).
    NaN in `values` says that no episode ended since the point before. A seed's last value stands until it has a new
    one. Before every seed of every task has its first value there is no summary (NaN): one of those that end their
    episodes soonest would flatter or slander the rest. With one seed there is no interval: `low` and `high` are NaN.
    The interval holds for each point by itself. Whole curves are resampled, within each task by itself, the same for
    every point. With fewer than 5 seeds of a single task the interval of a mean or an interquartile mean is Student's,
    of the mean, as in `score`; it stays `within` the least and the most that a value can be.
    Source: Agarwal et al., 2021, arXiv:2108.13264, section 4.3.
    """
    steps, curves = _curves(steps, values)
    filled = np.moveaxis(fill_forward(curves), -1, 0)  # points seeds tasks
    known = np.isfinite(filled).all(axis=(1, 2))
    value, low, high = (np.full(len(steps), np.nan) for _ in range(3))
    value[known] = statistic(filled[known], axis=(-2, -1))
    if within is not None and not ((value[known] >= within[0]) & (value[known] <= within[1])).all():
        within = None  # it was no range of these

    seeds, tasks, _ = curves.shape
    if 1 < seeds < FEW and tasks == 1 and statistic in (interquartile_mean, mean):
        ends = [clip_interval(student_interval(point[:, 0], confidence), within) for point in filled[known]]
        low[known], high[known] = np.reshape(ends, (-1, 2)).T
    elif seeds > 1:
        check_interval(seeds, confidence, resamples)
        drawn = np.random.default_rng(seed).integers(seeds, size=(resamples, seeds, tasks))
        where = np.flatnonzero(known)
        width = max(1, statistics.CHUNK // drawn.size)
        for start in range(0, len(where), width):
            points = where[start : start + width]
            found = statistic(filled[points][:, drawn, np.arange(tasks)], axis=(-2, -1))  # points resamples
            low[points], high[points] = quantiles(found, confidence)
    return steps, value, low, high


def area_under_curve(steps: Float[np.ndarray, " points"], values: Values, before: float | None = None) -> Area:
    """Return the mean value of each run over training: high for runs that learn both early and well.

        1 / (end - start) * integral from start to end of value(step) d step      (trapezoids)

    It is on the scale of the values, so runs of different lengths compare, and `score` accepts it like returns. A NaN
    takes the value before it. The value of a run before its first point is unknown, so the integral of all runs starts
    at the first point at which each of them has one, and that start is returned; with `before` (such as the return of a
    random policy) that number is used instead, and the integral starts at the first point. Source: Machado et al.,
    2018, arXiv:1709.06009, section 3.1.
    """
    steps, curves = _curves(steps, values)
    if np.any(np.diff(steps) <= 0):
        raise ForageError("An area needs steps that increase from point to point, and these do not.")
    if before is not None:
        if not np.isfinite(before):
            raise ForageError(f"before is the value of a run that has none yet, a finite number, and was {before}.")
        curves = curves.copy()
        curves[..., 0] = np.where(np.isnan(curves[..., 0]), before, curves[..., 0])
    filled = fill_forward(curves)
    known = np.flatnonzero(np.isfinite(filled).all(axis=(0, 1)))
    never = int(np.sum(np.isnan(filled[..., -1])))
    if never:
        raise ForageError(
            f"{never} of {filled[..., -1].size} runs have no value at any point, so no area; leave them out and say "
            f"so, or name the value that stands before the first, such as before=0."
        )
    if len(known) < 2 or known[-1] - known[0] + 1 != len(known):
        raise ForageError(
            "An area needs at least two points, one after the other, at which every run has a finite value, and there "
            "are too few; name the value that stands before the first, such as before=0, or train longer."
        )
    at, heights = steps[known], filled[..., known]
    area = np.sum((heights[..., 1:] + heights[..., :-1]) / 2 * np.diff(at), axis=-1) / (at[-1] - at[0])
    return Area(area[:, 0] if np.ndim(values) == 2 else area, float(at[0]), float(at[-1]))


def fill_forward(values: Float[np.ndarray, "*runs points"]) -> Float[np.ndarray, "*runs points"]:
    """Replace each NaN by the last value before it in its row; leading NaN stay."""
    latest = np.maximum.accumulate(np.where(np.isnan(values), 0, np.arange(values.shape[-1])), axis=-1)
    return np.take_along_axis(values, latest, axis=-1)


def smooth_curve(
    steps: Float[np.ndarray, " points"], values: Float[np.ndarray, "seeds points"], window: float
) -> Float[np.ndarray, "seeds points"]:
    """Return the mean of the points in the last `window` steps up to each one; points without a value do not count."""
    steps, values = np.asarray(steps, np.float64), np.asarray(values, np.float64)
    known = np.isfinite(values)
    sums = np.cumsum(np.where(known, values, 0.0), axis=-1)
    counts = np.cumsum(known, axis=-1)
    before = np.searchsorted(steps, steps - window, side="right")  # points that are too old, of each point

    def window_sums(totals: np.ndarray) -> np.ndarray:
        return totals - np.where(before > 0, totals[..., np.maximum(before - 1, 0)], 0)

    with np.errstate(invalid="ignore", divide="ignore"):
        return window_sums(sums) / window_sums(counts)


def align_curves(
    curves: Sequence[tuple[Float[np.ndarray, " points"], Float[np.ndarray, "seeds points"]]],
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return curves of different steps as one set, at all their steps up to the last that all reach.

    A curve holds its last value between its own points, and is NaN before its first. `None` without a common step.
    """
    curves = [(np.asarray(steps), np.asarray(values, np.float64)) for steps, values in curves if len(steps)]
    if not curves:
        return None
    at = np.unique(np.concatenate([steps for steps, _ in curves]))
    at = at[at <= min(steps[-1] for steps, _ in curves)]
    rows = []
    for steps, values in curves:
        last = np.searchsorted(steps, at, side="right") - 1
        rows.append(np.where(last >= 0, fill_forward(values)[:, np.maximum(last, 0)], np.nan))
    return (at, np.concatenate(rows)) if len(at) else None


def _curves(steps: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values as `seeds tasks points`."""
    steps, values = np.asarray(steps), np.asarray(values, np.float64)
    if steps.ndim != 1 or values.ndim not in (2, 3) or values.shape[-1] != len(steps) or values.size == 0:
        raise ForageError(
            f"A curve needs steps of shape (points,) and values of shape (seeds, points) or (seeds, tasks, points), at "
            f"least one of each, and got {steps.shape} and {values.shape}."
        )
    return steps, values[:, None] if values.ndim == 2 else values
