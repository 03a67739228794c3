"""Statistics against numbers worked by hand, against SciPy, and against what they promise in repeated experiments."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from forage.evaluation import statistics
from forage.evaluation.statistics import (
    Score,
    aggregate_curve,
    bootstrap_interval,
    interquartile_mean,
    probability_of_improvement,
    score,
)
from forage.types import ForageError

NAN = np.nan


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([7], 7),
        ([1, 3], 2),
        ([0, 3, 9], 4),  # fewer than four: nothing is dropped
        ([100, 2, 4, -50], 3),  # -50 and 100 dropped
        ([1, 2, 3, 4, 100], 3),  # 1 and 100 dropped
        ([8, 7, 6, 5, 4, 3, 2, 1], 4.5),  # 1, 2 and 7, 8 dropped
        ([[1, 2], [3, 100]], 2.5),  # tasks are pooled
        ([1, 2, 3, np.inf], 2.5),
    ],
)
def test_interquartile_mean_by_hand(scores, expected):
    assert interquartile_mean(scores) == pytest.approx(expected)


def test_interquartile_mean_is_scipys_trimmed_mean():
    random = np.random.default_rng(0)
    for n in range(1, 14):
        scores = random.normal(size=(3, n, 2))
        for axis in (0, 1, 2, -1, None):
            expected = scipy.stats.trim_mean(scores, 0.25, axis)
            np.testing.assert_allclose(interquartile_mean(scores, axis), expected)


def test_interquartile_mean_does_not_drop_nan_as_if_it_were_a_high_score():
    assert np.isnan(interquartile_mean([1, 2, 3, NAN]))
    np.testing.assert_array_equal(interquartile_mean([[1, 2, 3, NAN], [1, 2, 3, 4]], axis=1), [NAN, 2.5])
    with pytest.raises(ForageError, match="at least one score"):
        interquartile_mean([])


def test_interval_of_two_seeds_by_hand():
    # The means of two draws from 0 and 1 are 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4.
    assert bootstrap_interval(np.array([0.0, 1.0])) == (0, 1)
    assert bootstrap_interval(np.array([0.0, 1.0]), confidence=0.4) == (0.5, 0.5)
    assert bootstrap_interval(np.array([3.0, 3.0, 3.0])) == (3, 3)


def test_interval_agrees_with_scipys_bootstrap():
    scores = np.random.default_rng(3).exponential(size=12)
    expected = scipy.stats.bootstrap(
        (scores,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(4)
    ).confidence_interval
    assert bootstrap_interval(scores, np.mean, resamples=20_000) == pytest.approx(expected, abs=0.02)


def test_interval_takes_any_statistic_and_is_the_same_each_time():
    scores = np.array([1.0, 2.0, 3.0, 4.0, 50.0])
    assert bootstrap_interval(scores, np.max)[1] == 50
    assert bootstrap_interval(scores, np.median)[1] <= 50
    assert bootstrap_interval(scores) == bootstrap_interval(scores)
    assert bootstrap_interval(scores, confidence=0.5)[0] > bootstrap_interval(scores, confidence=0.99)[0]


def test_tasks_are_resampled_each_by_itself():
    # Seeds differ by nothing within a task, so however seeds are drawn, stratified draws are the same.
    scores = np.tile([1.0, 2.0, 3.0, 10.0], (5, 1))
    assert bootstrap_interval(scores) == (2.5, 2.5)
    # A seed good at one task and bad at the other: drawn together the mean would never move, by itself it does.
    opposed = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert bootstrap_interval(opposed, np.mean) == (0, 1)


def test_chunks_change_nothing_but_memory(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(6, 3))
    values = np.random.default_rng(1).normal(size=(4, 9))
    whole = bootstrap_interval(scores), aggregate_curve(np.arange(9), values)
    monkeypatch.setattr(statistics, "CHUNK", 2000 * 4 * 2)
    assert bootstrap_interval(scores) == pytest.approx(whole[0])
    np.testing.assert_allclose(aggregate_curve(np.arange(9), values), whole[1])


@pytest.mark.parametrize(("seeds", "least", "most"), [(5, 0.84, 0.95), (20, 0.90, 0.985)])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(seeds, least, most):
    random = np.random.default_rng(seeds)
    held = 0
    for experiment in range(500):
        low, high = bootstrap_interval(random.normal(10, 3, size=seeds), resamples=500, seed=experiment)
        held += low <= 10 <= high
    assert least <= held / 500 <= most


def test_score_reads_as_people_write_it():
    assert str(Score(495.23, 480.1, 500, 5)) == "495.2 [480.1, 500.0] (5 seeds)"
    assert str(Score(0.5, 0.25, 0.75, 10)) == "0.500 [0.250, 0.750] (10 seeds)"
    assert str(Score(5.2, 4.0, 9.999, 3)) == "5.20 [4.00, 10.00] (3 seeds)"
    assert str(Score(-152.31, -1500.0, -99.0, 4)) == "-152.3 [-1500.0, -99.0] (4 seeds)"
    assert str(Score(12345.6, 9000.0, 20000.0, 8)) == "12346 [9000, 20000] (8 seeds)"
    assert str(Score(0.0, 0.0, 0.0, 2)) == "0.0 [0.0, 0.0] (2 seeds)"
    assert str(Score(495.23, None, None, 1)) == "495.2 (1 seed, no interval)"


def test_score():
    several = score([1, 2, 3, 4, 100])
    assert several.value == 3
    assert several.seeds == 5
    assert several.low is not None
    assert several.high is not None
    assert 1 <= several.low < 3 < several.high <= 100
    assert score([7.0]) == Score(7, None, None, 1)
    assert score(np.ones((3, 4))) == Score(1, 1, 1, 3)
    assert score([[1, 2, 3, 100]]) == Score(2.5, None, None, 1)  # four tasks, one seed


def test_probability_of_improvement_by_hand():
    assert probability_of_improvement([2, 3], [0, 1]) == Score(1, 1, 1, 2)
    assert probability_of_improvement([0, 1], [2, 3]) == Score(0, 0, 0, 2)
    assert probability_of_improvement([5, 5], [5, 5]) == Score(0.5, 0.5, 0.5, 2)
    # Pairs of 1, 2, 3 against 0, 2: wins 1, 0; 1, a draw; 1, 1, so 4.5 of 6.
    mixed = probability_of_improvement([1, 2, 3], [0, 2])
    assert mixed.value == pytest.approx(4.5 / 6)
    assert mixed.seeds == 2
    # One draw in four has only 2 for b. Of those, 1 in 27 has 1, 1, 1 for a (score 0), 3 in 27 have 1, 1, 2
    # (score 1/6): below 1/6 lie 0.9 %, up to it 3.7 %. One draw in four has only 0 for b: score 1.
    assert mixed.low == pytest.approx(1 / 6)
    assert mixed.high == 1
    # Always better at one task, always worse at the other.
    assert probability_of_improvement([[1, 0], [1, 0]], [[0, 1], [0, 1]]) == Score(0.5, 0.5, 0.5, 2)
    assert probability_of_improvement([3], [1, 2]) == Score(1, None, None, 1)


def test_probability_of_improvement_is_mann_and_whitneys_and_its_interval_a_plain_bootstrap():
    random = np.random.default_rng(0)
    a, b = random.normal(0.5, 1, size=9), random.normal(size=7)
    found = probability_of_improvement(a, b, resamples=4000)
    assert found.value == pytest.approx(scipy.stats.mannwhitneyu(a, b).statistic / 63)
    plain = []
    for _ in range(4000):
        drawn_a, drawn_b = random.choice(a, 9), random.choice(b, 7)
        plain.append(np.mean(drawn_a[:, None] > drawn_b))
    assert (found.low, found.high) == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.03)


def test_aggregate_curve_by_hand():
    values = [[NAN, 1, NAN, 3, 4], [0, 3, 5, NAN, 4], [NAN, NAN, 7, 9, 4]]
    steps, iqm, low, high = aggregate_curve([10, 20, 30, 40, 50], values)
    np.testing.assert_array_equal(steps, [10, 20, 30, 40, 50])
    # Until the third seed has a value there is no summary; then a seed's last value stands: 1, 5, 7 and 3, 5, 9.
    np.testing.assert_allclose(iqm, [NAN, NAN, 13 / 3, 17 / 3, 4])
    np.testing.assert_allclose(low, [NAN, NAN, 1, 3, 4])
    np.testing.assert_allclose(high, [NAN, NAN, 7, 9, 4])


def test_aggregate_curve_is_the_interval_of_each_point():
    values = np.random.default_rng(0).normal(size=(8, 3))
    _, iqm, low, high = aggregate_curve(np.arange(3), values, resamples=20_000)
    for point in range(3):
        assert iqm[point] == pytest.approx(interquartile_mean(values[:, point]))
        assert (low[point], high[point]) == pytest.approx(
            bootstrap_interval(values[:, point], resamples=20_000), abs=0.05
        )


def test_aggregate_curve_of_one_seed_or_of_one_that_never_ends_an_episode():
    _, iqm, low, high = aggregate_curve([1, 2], [[5, 6]])
    np.testing.assert_array_equal(iqm, [5, 6])
    assert np.isnan([low, high]).all()
    assert np.isnan(aggregate_curve([1, 2], [[5, 6], [NAN, NAN]])[1:]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap_interval([1.0]), "at least 2 seeds"),
        (lambda: bootstrap_interval([1.0, 2.0], confidence=95), "between 0 and 1"),
        (lambda: bootstrap_interval([1.0, 2.0], resamples=0), "at least 1 resample"),
        (lambda: score([1.0, NAN, np.inf]), "2 of 3 scores that are not finite"),
        (lambda: score([]), "at least one of each"),
        (lambda: score(np.ones((2, 2, 2))), "shape"),
        (lambda: probability_of_improvement(np.ones((2, 3)), np.ones((2, 4))), "same tasks"),
        (lambda: aggregate_curve([1, 2, 3], [[1, 2]]), "shape"),
        (lambda: aggregate_curve([], [[]]), "at least one of each"),
    ],
)
def test_what_cannot_be_summarised_is_refused(call, message):
    with pytest.raises(ForageError, match=message):
        call()
