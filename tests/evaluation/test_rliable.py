"""Agreement with rliable, the code behind Agarwal et al., 2021, by results stored by `make_rliable.py`.

Of two made-up matrices always. Of the runs that the paper rests on, SPR, DrQ(eps) and SimPLe on Atari 100k, where the
environment variable FORAGE_ATARI_100K names the folder that has them; `make_rliable.py` says where they are to be had.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pathlib

import numpy as np
import pytest

from forage.evaluation.comparison import probability_of_improvement
from forage.evaluation.curves import aggregate_curve
from forage.evaluation.profiles import average_score_distribution, score_distribution
from forage.evaluation.references import human_normalised
from forage.evaluation.statistics import interquartile_mean, mean, optimality_gap, score, task_median

EXPECTED = json.loads((pathlib.Path(__file__).parent / "data" / "rliable.json").read_text())
STATISTICS = {
    "iqm": interquartile_mean,
    "mean": mean,
    "task_median": task_median,
    "optimality_gap": optimality_gap,
    "optimality_gap_half": functools.partial(optimality_gap, gamma=0.5),
}
PROFILES = {
    "score_distribution": score_distribution,
    "average_score_distribution": average_score_distribution,
}
RESAMPLES = 4000


@functools.cache
def matrix(name: str) -> np.ndarray:
    """`seeds tasks`"""
    if name in EXPECTED["matrices"]:
        return np.array(EXPECTED["matrices"][name])
    folder = os.environ.get("FORAGE_ATARI_100K")
    if not folder:
        pytest.skip("FORAGE_ATARI_100K does not name a folder with the published runs")
    data = (pathlib.Path(folder) / f"{name}.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == EXPECTED["sha256"][name]
    runs = json.loads(data)
    games = sorted(runs)
    return human_normalised(np.array([runs[game] for game in games], float).T, games)


def agree(found, expected, repetitions: int, step: float = 0.0) -> None:
    """Refuses values that are not the same, and ends of intervals further apart than chance puts them.

    The standard error of a 2.5 % quantile of B resamples of a normal distribution is 2.67 / sqrt(B) of its standard
    deviation, which is 1 / 3.92 of the interval. Four of them are allowed, and a `step` where values lie on a grid.
    """
    (value, *ends), (wanted, *wanted_ends) = np.array(found), np.array(expected)
    np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-9)
    chance = 4 * 2.67 * np.sqrt(1 / RESAMPLES + 1 / repetitions) / 3.92
    width = wanted_ends[1] - wanted_ends[0]
    assert (np.abs(np.array(ends) - wanted_ends) <= chance * width + step + 1e-9).all()


@pytest.mark.parametrize("name", EXPECTED["aggregates"])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_aggregates(name, statistic):
    found = score(matrix(name), resamples=RESAMPLES, statistic=STATISTICS[statistic])
    agree([found.value, found.low, found.high], EXPECTED["aggregates"][name][statistic], EXPECTED["repetitions"])


@pytest.mark.parametrize("name", EXPECTED["aggregates"])
@pytest.mark.parametrize("profile", PROFILES)
def test_profiles(name, profile):
    scores = matrix(name)
    found = PROFILES[profile](scores, EXPECTED["thresholds"], resamples=RESAMPLES)
    step = 1 / (scores.size if profile == "score_distribution" else scores.shape[1])
    expected = np.transpose(EXPECTED[profile][name])
    agree([found.share, found.low, found.high], expected, EXPECTED["repetitions"], step)


@pytest.mark.parametrize("names", EXPECTED["probability_of_improvement"])
def test_probability_of_improvement(names):
    sides = (matrix(name) for name in names.split(", "))
    found = probability_of_improvement(*sides, method="bootstrap", resamples=RESAMPLES)
    expected = EXPECTED["probability_of_improvement"][names]
    agree([found.value, found.low, found.high], expected, EXPECTED["few_repetitions"])


def test_sample_efficiency():
    curves = np.array(EXPECTED["curves"])
    _, *found = aggregate_curve(np.arange(curves.shape[-1]), curves, resamples=RESAMPLES)
    agree(found, np.transpose(EXPECTED["sample_efficiency"]), EXPECTED["repetitions"])
