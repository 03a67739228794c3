"""Statistics against numbers worked by hand, against SciPy, and against their guarantees in repeated experiments."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.stats

from forage.core.types import ForageError
from forage.evaluation import statistics
from forage.evaluation.statistics import (
    Score,
    bootstrap_interval,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
    score,
    student_interval,
    task_median,
)

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


SCORES = np.array([[0.0, 1.0, 5.0], [1.0, 3.0, 0.0]])  # two seeds, three tasks, whose means are 0.5, 2, 2.5


def test_mean_and_medians_by_hand():
    assert mean(SCORES) == pytest.approx(10 / 6)
    assert median(SCORES) == 1  # of 0, 0, 1, 1, 3, 5
    assert task_median(SCORES) == 2
    np.testing.assert_allclose(mean(SCORES, axis=0), [0.5, 2, 2.5])
    np.testing.assert_allclose(median(SCORES, axis=1), [1, 1])
    assert task_median(SCORES.T, axis=(1, 0)) == 2
    assert task_median([[1.0], [2.0], [6.0]]) == 3  # one task: the mean of its seeds


def test_optimality_gap_by_hand():
    # Up to 2, scores are 0, 1, 2, 1, 2, 0: a mean of 1. Up to 1: 0, 1, 1, 1, 1, 0.
    assert optimality_gap(SCORES, gamma=2) == 1
    assert optimality_gap(SCORES) == pytest.approx(1 / 3)
    np.testing.assert_allclose(optimality_gap(SCORES, axis=1), [1 / 3, 1 / 3])
    assert optimality_gap([9.0, np.inf]) == 0


def test_axes_are_pooled_and_nan_stays():
    scores = np.random.default_rng(0).normal(size=(3, 4, 5))
    for statistic in (interquartile_mean, mean, median, optimality_gap):
        pooled = statistic(scores.transpose(1, 0, 2).reshape(4, 15), axis=-1)
        np.testing.assert_allclose(statistic(scores, axis=(0, 2)), pooled)
        assert np.isnan(statistic([1.0, NAN, 2.0]))
    np.testing.assert_allclose(task_median(scores), [task_median(matrix) for matrix in scores])
    assert np.isnan(task_median([[1.0, NAN]]))


def test_each_aggregate_is_a_statistic_of_the_bootstrap():
    scores = np.random.default_rng(5).exponential(size=(4, 3))
    random = np.random.default_rng(6)
    drawn = np.stack([random.choice(task, (8000, 4)) for task in scores.T], axis=-1)
    gap = functools.partial(optimality_gap, gamma=0.5)
    for statistic in (interquartile_mean, mean, median, task_median, gap):
        low, high = np.quantile(statistic(drawn, axis=(-2, -1)), [0.025, 0.975])
        assert bootstrap_interval(scores, statistic, resamples=8000) == pytest.approx((low, high), abs=0.08)
        assert score(scores, statistic=statistic).value == pytest.approx(statistic(scores))


def test_interval_of_two_seeds_by_hand():
    # The means of two draws from 0 and 1 are 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4.
    assert bootstrap_interval(np.array([0.0, 1.0])) == (0, 1)
    assert bootstrap_interval(np.array([0.0, 1.0]), confidence=0.4) == (0.5, 0.5)
    assert bootstrap_interval(np.array([3.0, 3.0, 3.0])) == (3, 3)


def test_scores_of_fewer_than_five_seeds_have_students_interval():
    # One degree of freedom: 1/2 +- tan(0.475 pi) / 2. Two: 2 +- 4.3027 / sqrt(3). Three: 3.1824 standard errors.
    assert student_interval([0.0, 1.0]) == pytest.approx((0.5 - 6.3531, 0.5 + 6.3531), abs=1e-4)
    assert student_interval([1.0, 2, 3]) == pytest.approx((2 - 2.4841, 2 + 2.4841), abs=1e-4)
    assert student_interval([0.0, 0, 2, 2]) == pytest.approx((1 - 3.1824 / 3**0.5, 1 + 3.1824 / 3**0.5), abs=1e-4)
    for few in ([0.0, 1.0], [1.0, 2, 3], [0.0, 0, 0, 2]):
        assert (score(few).low, score(few).high) == student_interval(few)
        assert score(few, statistic=mean).value == pytest.approx(np.mean(few))
    assert student_interval([0.3] * 3) == (0.3, 0.3)  # the mean of equal numbers is not always one of them
    many = [1.0, 2, 3, 4, 50]
    assert (score(many).low, score(many).high) == bootstrap_interval(many)
    assert score([1.0, 2, 3], statistic=median).low == bootstrap_interval([1.0, 2, 3], median)[0]


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
    whole = bootstrap_interval(scores)
    monkeypatch.setattr(statistics, "CHUNK", 2000 * 4 * 2)
    assert bootstrap_interval(scores) == pytest.approx(whole)


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap_interval([1.0]), "at least 2 seeds"),
        (lambda: student_interval([1.0]), "at least 2 seeds"),
        (lambda: student_interval(np.ones((3, 2))), "one number for each seed, and got 2 tasks"),
        (lambda: bootstrap_interval([1.0, 2.0], confidence=95), "between 0 and 1"),
        (lambda: bootstrap_interval([1.0, 2.0], resamples=0), "at least 1 resample"),
        (lambda: score([1.0, NAN, np.inf]), "2 of 3 scores that are not finite"),
        (lambda: score([]), "at least one of each"),
        (lambda: score(np.ones((2, 2, 2))), "shape"),
        (lambda: score(np.ones((2, 0))), "at least one of each"),
        (lambda: mean([]), "at least one score"),
        (lambda: median(np.ones((2, 0)), axis=1), "at least one score"),
        (lambda: optimality_gap([]), "at least one score"),
        (lambda: optimality_gap([1.0], gamma=NAN), "finite number such as 1"),
        (lambda: task_median([1.0, 2.0]), "seeds, tasks"),
        (lambda: task_median(np.ones((2, 0))), "at least one task"),
    ],
)
def test_what_cannot_be_summarised_is_refused(call, message):
    with pytest.raises(ForageError, match=message):
        call()
