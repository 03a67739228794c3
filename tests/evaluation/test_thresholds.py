"""Times to a threshold against tables worked by hand, a published trial, SciPy, and repeated experiments."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from forage.core.types import ForageError
from forage.evaluation.thresholds import (
    Duration,
    Times,
    first_reached,
    kaplan_meier,
    logrank,
    median_time,
    restricted_mean_time,
)

NAN = np.nan


def times(text: str) -> Times:
    """Numbers as survival tables write them: `9 13 13+`, the plus for a run that never arrived."""
    words = text.split()
    return Times(np.array([float(w.rstrip("+")) for w in words]), np.array([not w.endswith("+") for w in words]))


# Freireich et al., 1963: weeks of remission under 6-mercaptopurine and placebo, the example of every textbook.
TREATED = times("6 6 6 6+ 7 9+ 10 10+ 11+ 13 16 17+ 19+ 20+ 22 23 25+ 32+ 32+ 34+ 35+")
PLACEBO = times("1 1 2 2 3 4 4 5 5 8 8 8 8 11 11 12 12 15 17 22 23")


def test_first_reached_by_hand():
    values = [[NAN, 5, 1, 9], [0, NAN, 4, 5], [0, 1, NAN, 2]]
    found = first_reached([10, 20, 30, 40], values, threshold=5)
    np.testing.assert_array_equal(found.time, [20, 40, 40])
    np.testing.assert_array_equal(found.reached, [True, True, False])


def test_seconds_are_each_seeds_own_and_a_seed_that_stopped_is_watched_no_longer():
    seconds = [[1.5, 3.0, 4.5], [2.0, 4.0, NAN]]
    found = first_reached(seconds, [[0, 0, 7], [0, 1, NAN]], threshold=5)
    np.testing.assert_array_equal(found.time, [4.5, 4.0])
    np.testing.assert_array_equal(found.reached, [True, False])


def test_kaplan_meier_by_hand():
    # At 3, 1 of 6 arrives; at 5, 1 of 5 (and one gives up); at 8, 1 of 3; two are watched up to 10 in vain.
    found = kaplan_meier(times("3 5 5+ 8 10+ 10+"))
    np.testing.assert_array_equal(found.times, [3, 5, 8, 10])
    np.testing.assert_allclose(found.share, [5 / 6, 4 / 6, 4 / 9, 4 / 9])


def test_kaplan_meier_of_a_published_trial():
    found = kaplan_meier(TREATED)
    at = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}  # Kalbfleisch and Prentice
    for week, share in at.items():
        assert found.share[found.times == week] == pytest.approx(share, abs=5e-4)
    # Greenwood on the scale log(-log share), worked out at 23 weeks, where 1 of 6 relapses.
    events, watched = np.array([3, 1, 1, 1, 1, 1, 1]), np.array([21, 17, 15, 12, 11, 7, 6])
    share = np.prod(1 - events / watched)
    spread = 1.959964 * math.sqrt(np.sum(events / (watched * (watched - events)))) / math.log(share)
    band = [share ** math.exp(-spread), share ** math.exp(spread)]
    week = found.times == 23
    np.testing.assert_allclose([found.low[week][0], found.high[week][0]], sorted(band), rtol=1e-5)


def test_median_of_a_published_trial():
    assert median_time(PLACEBO) == Duration(8, 4, 11, 21, 21)
    assert median_time(TREATED) == Duration(23, 13, math.inf, 9, 21)
    assert str(median_time(TREATED)) == "23 [13, unbounded] (9 of 21 seeds reached it)"


def test_median_where_most_or_none_arrive():
    assert median_time(times("5+ 5+ 5+")) == Duration(math.inf, math.inf, math.inf, 0, 3)
    assert median_time(times("5 5 5")) == Duration(5, 5, math.inf, 3, 3)  # three do not show that half of all would
    # Of 6 the last share with a band is 1/6, whose upper end is 0.52; of 7 it is 1/7, and that is below a half.
    assert median_time(times("1 2 3 4 5 6")) == Duration(3, 1, math.inf, 6, 6)
    assert median_time(times("1 2 3 4 5 6 7")) == Duration(4, 1, 6, 7, 7)
    assert str(median_time(times("5 5 5"))) == "5 [5, unbounded] (3 of 3 seeds reached it)"
    assert median_time(times("5 9+ 9+")).value == math.inf  # two of three never: half never arrived
    alone = median_time(times("120000"))
    assert alone == Duration(120_000, None, None, 1, 1)
    assert str(alone) == "120000 (1 of 1 seed reached it, no interval)"


@pytest.mark.parametrize(("seeds", "least"), [(2, 0.71), (3, 0.84), (5, 0.94), (10, 0.92)])
def test_the_interval_of_a_median_holds_it_as_often_as_is_said(seeds, least):
    random, truth = np.random.default_rng(0), math.log(2)
    found = [median_time(Times(random.exponential(size=seeds), np.ones(seeds, bool))) for _ in range(500)]
    assert np.mean([d.low <= truth <= d.high for d in found]) > least


def test_restricted_mean_by_hand():
    # 1 up to 3, 5/6 up to 5, 4/6 up to 8, 4/9 up to 10.
    found = restricted_mean_time(times("3 5 5+ 8 10+ 10+"))
    assert found.value == pytest.approx(3 + 2 * 5 / 6 + 3 * 4 / 6 + 2 * 4 / 9)
    assert (found.reached, found.seeds) == (3, 6)
    assert found.low < found.value < found.high
    assert restricted_mean_time(times("3 5 5+ 8 10+ 10+"), horizon=4).value == pytest.approx(3 + 5 / 6)


def test_restricted_mean_is_the_mean_when_all_are_watched_to_the_horizon():
    found = restricted_mean_time(times("2 4 6 10+"))
    assert found.value == pytest.approx((2 + 4 + 6 + 10) / 4)
    assert restricted_mean_time(times("2 4 6"), horizon=100).value == pytest.approx(4)
    plain = np.random.default_rng(0).choice([2, 4, 6, 10], (20_000, 4)).mean(axis=1)
    found = restricted_mean_time(times("2 4 6 10+"), resamples=20_000)
    assert (found.low, found.high) == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.01)
    assert restricted_mean_time(times("7+")) == Duration(7, None, None, 0, 1)


def test_restricted_mean_is_the_area_under_scipys_curve():
    random = np.random.default_rng(0)
    arrive, stop = random.integers(1, 12, size=(2, 40))
    found = Times(np.minimum(arrive, stop).astype(float), arrive <= stop)
    curve = scipy.stats.ecdf(scipy.stats.CensoredData.right_censored(found.time, ~found.reached)).sf
    horizon = found.time.max()
    edges = np.concatenate([[0], curve.quantiles])
    area = np.sum(np.diff(edges) * np.concatenate([[1], curve.probabilities[:-1]]))
    assert restricted_mean_time(found, horizon).value == pytest.approx(area)


def test_the_restricted_mean_is_not_fooled_by_runs_that_stopped_early():
    random = np.random.default_rng(0)
    arrive, stop = random.exponential(10, size=4000), random.exponential(15, size=4000)
    found = Times(np.minimum(arrive, stop), arrive <= stop)
    truth = 10 * (1 - math.exp(-2))  # of min(arrive, 20)
    assert restricted_mean_time(found, horizon=20, resamples=1).value == pytest.approx(truth, rel=0.03)
    assert found.time[found.reached].mean() < 0.75 * truth  # those that arrived, alone


def test_logrank_of_a_published_trial_and_is_scipys():
    # Chi-squared 16.79 with one degree of freedom.
    assert logrank(TREATED, PLACEBO) == pytest.approx(scipy.stats.chi2.sf(16.79, 1), rel=0.01)
    assert logrank(PLACEBO, TREATED) == pytest.approx(logrank(TREATED, PLACEBO))
    assert logrank(TREATED, TREATED) == pytest.approx(1)
    assert logrank(times("5 5"), times("5 5 5")) == 1


def test_logrank_by_hand():
    # At 1 and 2 one of the first kind arrives, of 2 + 2 and 1 + 2 watched: expected 1/2 + 1/3, variance 1/4 + 2/9.
    z = (2 - 5 / 6) / math.sqrt(1 / 4 + 2 / 9)
    assert logrank(times("1 2"), times("9+ 9+")) == pytest.approx(2 * scipy.stats.norm.sf(z))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: first_reached([1, 2], [[1, 2, 3]], 1), "shape"),
        (lambda: first_reached([], [[]], 1), "at least one of each"),
        (lambda: first_reached([1, 2], [[1, 2]], NAN), "finite number"),
        (lambda: first_reached([2, 1], [[1, 2]], 1), "increase"),
        (lambda: first_reached([[1, NAN, 3]], [[1, 2, 3]], 1), "NaN at its end"),
        (lambda: first_reached([[NAN, NAN]], [[1, 2]], 1), "NaN at its end"),
        (lambda: kaplan_meier(Times(np.array([]), np.array([], bool))), "at least one"),
        (lambda: kaplan_meier(Times(np.array([1.0]), np.array([1]))), "truth value"),
        (lambda: kaplan_meier(Times(np.array([NAN]), np.array([True]))), "finite"),
        (lambda: kaplan_meier(PLACEBO, confidence=95), "between 0 and 1"),
        (lambda: restricted_mean_time(TREATED, horizon=36), "at most 35"),
        (lambda: restricted_mean_time(TREATED, horizon=0), "above 0"),
        (lambda: logrank(times("1"), PLACEBO), "at least 2 seeds"),
        (lambda: logrank(times("9+ 9+"), times("9+ 9+")), "No run reached"),
    ],
)
def test_what_cannot_be_timed_is_refused(call, message):
    with pytest.raises(ForageError, match=message):
        call()
