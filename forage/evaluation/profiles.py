"""Performance profiles: not one number for an algorithm but the share of runs, or of tasks, above each score.

Where one profile lies above another throughout, the one algorithm is better whatever score one asks for.

Source: Agarwal et al., 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice", arXiv:2108.13264,
section 4.2; Dolan and Moré, 2002, "Benchmarking optimization software with performance profiles".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from forage.core.errors import ForageError
from forage.evaluation import statistics
from forage.evaluation.statistics import Scores, check_interval, check_scores, quantiles


class Profile(NamedTuple):
    """The share that scores above each threshold, and its band, all of length `thresholds`.

    The band holds for each threshold by itself. It is NaN where there is a single seed.
    """

    thresholds: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int


def score_distribution(
    scores: Scores,
    thresholds: Float[np.ndarray, " thresholds"],
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Profile:
    """Return the share of runs that score above each threshold, averaged over tasks, with a bootstrap band.

        share(t) = mean over tasks and seeds of [score > t]

    The area under it, from 0 on, is the mean of scores that are not negative. Seeds are resampled within each task
    by itself (stratified), the same for every threshold.
    Source: Agarwal et al., 2021, arXiv:2108.13264, section 4.2.
    """
    scores, thresholds = _check_profile("score_distribution", scores, thresholds)
    above = scores[..., None] > thresholds  # seeds tasks thresholds
    seeds, tasks = scores.shape
    if seeds == 1:
        return _without_band(thresholds, above.mean(axis=(0, 1)))
    check_interval(seeds, confidence, resamples)
    random = np.random.default_rng(seed)
    found = np.zeros((resamples, len(thresholds)))
    for task in range(tasks):
        # How often each seed was drawn says all that the drawn seeds would.
        drawn = random.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples)
        found += drawn @ above[:, task].astype(np.float64)
    low, high = quantiles(found.T / (seeds * tasks), confidence)
    return Profile(thresholds, above.mean(axis=(0, 1)), low, high, seeds)


def average_score_distribution(
    scores: Scores,
    thresholds: Float[np.ndarray, " thresholds"],
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Profile:
    """Return the share of tasks with a mean score over seeds above each threshold, with a bootstrap band.

        share(t) = mean over tasks of [mean over seeds of score > t]

    It hides how much seeds differ, and with few seeds it is biased; `score_distribution` is neither. Seeds are
    resampled within each task by itself (stratified), the same for every threshold.
    Source: Agarwal et al., 2021, arXiv:2108.13264, section 4.2.
    """
    scores, thresholds = _check_profile("average_score_distribution", scores, thresholds)
    share = (scores.mean(axis=0)[:, None] > thresholds).mean(axis=0)
    seeds, tasks = scores.shape
    if seeds == 1:
        return _without_band(thresholds, share)
    check_interval(seeds, confidence, resamples)
    random = np.random.default_rng(seed)
    rows = max(1, statistics.CHUNK // scores.size)
    found = np.zeros((resamples, len(thresholds)))
    for start in range(0, resamples, rows):
        drawn = random.integers(seeds, size=(min(rows, resamples - start), seeds, tasks))
        means = scores[drawn, np.arange(tasks)].mean(axis=1)  # resamples tasks
        for task in range(tasks):
            found[start : start + rows] += means[:, task, None] > thresholds
    low, high = quantiles(found.T / tasks, confidence)
    return Profile(thresholds, share, low, high, seeds)


def _check_profile(name: str, scores: Any, thresholds: Any) -> tuple[np.ndarray, np.ndarray]:
    scores, thresholds = check_scores(name, scores), np.asarray(thresholds, np.float64)
    if thresholds.ndim != 1 or thresholds.size == 0 or not np.isfinite(thresholds).all():
        raise ForageError(
            f"{name} needs finite thresholds of shape (thresholds,), at least one, such as numpy.linspace(0, 2, 101)."
        )
    return scores, thresholds


def _without_band(thresholds: np.ndarray, share: np.ndarray) -> Profile:
    nothing = np.full(len(thresholds), np.nan)
    return Profile(thresholds, share, nothing, nothing, 1)
