"""Curves: one of many by hand and against the interval of each point; areas by hand."""

from __future__ import annotations

import numpy as np
import pytest

from forage.core.types import ForageError
from forage.evaluation import statistics
from forage.evaluation.curves import aggregate_curve, area_under_curve
from forage.evaluation.statistics import bootstrap_interval, interquartile_mean, score, task_median

NAN = np.nan


def test_aggregate_curve_by_hand():
    values = [[NAN, 1, NAN, 3, 4], [0, 3, 5, NAN, 4], [NAN, NAN, 7, 9, 4]]
    steps, iqm, low, high = aggregate_curve([10, 20, 30, 40, 50], values)
    np.testing.assert_array_equal(steps, [10, 20, 30, 40, 50])
    # Until the third seed has a value there is no summary; then a seed's last value stands: 1, 5, 7 and 3, 5, 9.
    np.testing.assert_allclose(iqm, [NAN, NAN, 13 / 3, 17 / 3, 4])
    # Three seeds: Student's interval of the mean, t = 4.302653, and of 1, 5, 7 and 3, 5, 9 s^2 = 28/3.
    half = 4.302653 * (28 / 3 / 3) ** 0.5
    np.testing.assert_allclose(low, [NAN, NAN, 13 / 3 - half, 17 / 3 - half, 4], rtol=1e-6)
    np.testing.assert_allclose(high, [NAN, NAN, 13 / 3 + half, 17 / 3 + half, 4], rtol=1e-6)


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


def test_a_curve_over_tasks_is_the_statistic_of_all_seeds_and_tasks_at_each_point():
    values = np.random.default_rng(1).normal(size=(5, 4, 3))
    values[2, 1, 0] = NAN
    _, value, low, high = aggregate_curve(np.arange(3), values, resamples=8000)
    assert np.isnan([value[0], low[0], high[0]]).all()  # one seed of one task has no value yet
    for point in (1, 2):
        assert value[point] == pytest.approx(interquartile_mean(values[..., point]))
        expected = bootstrap_interval(values[..., point], resamples=8000)
        assert (low[point], high[point]) == pytest.approx(expected, abs=0.03)
    medians = aggregate_curve(np.arange(3), values, statistic=task_median)[1]
    assert medians[2] == pytest.approx(task_median(values[..., 2]))


def test_tasks_of_a_curve_are_resampled_each_by_itself():
    # A seed good at one task and bad at the other: drawn together the mean would never move, by itself it does.
    values = np.array([[[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]]])
    _, value, low, high = aggregate_curve([1, 2], values)
    np.testing.assert_array_equal([value, low, high], [[0.5, 0.5], [0, 0], [1, 1]])


def test_chunks_change_nothing_but_memory(monkeypatch):
    values = np.random.default_rng(1).normal(size=(4, 3, 9))
    whole = aggregate_curve(np.arange(9), values)
    monkeypatch.setattr(statistics, "CHUNK", 2000 * 4 * 3 * 2)
    np.testing.assert_allclose(aggregate_curve(np.arange(9), values), whole)


def test_area_by_hand():
    # Trapezoids over steps 0, 10, 40: (10 * 1 + 30 * 3) / 40 and (10 * 5 + 30 * 5) / 40.
    area = area_under_curve([0, 10, 40], [[0.0, 2, 4], [5, 5, 5]])
    np.testing.assert_allclose(area.value, [2.5, 5])
    assert (area.start, area.end) == (0, 40)
    tasks = area_under_curve([0, 10, 40], [[[0.0, 2, 4], [5, 5, 5]]])
    np.testing.assert_allclose(tasks.value, [[2.5, 5]])
    assert score(area.value).seeds == 2
    # The last value stands until there is a new one: 2, 2, 4 over 10, 10.
    np.testing.assert_allclose(area_under_curve([0, 10, 20], [[2, NAN, 4]]).value, [2.5])


def test_an_area_begins_where_every_run_has_a_value_or_at_what_stands_before():
    values = [[NAN, 2, 4], [6, 6, 6]]
    area = area_under_curve([0, 10, 20], values)
    np.testing.assert_allclose(area.value, [3, 6])
    assert (area.start, area.end) == (10, 20)
    area = area_under_curve([0, 10, 20], values, before=-2.0)
    np.testing.assert_allclose(area.value, [1.5, 6])  # -2, 2, 4: (0 + 3) / 2
    assert (area.start, area.end) == (0, 20)
    assert area_under_curve([0, 10], [[NAN, NAN]], before=1.0).value == [1]


def test_area_is_on_the_scale_of_values_whatever_the_spacing_of_steps():
    steps = np.sort(np.random.default_rng(0).uniform(0, 1e6, size=50))
    area = area_under_curve(steps, [3 * steps + 1])
    assert area.value[0] == pytest.approx(3 * (steps[0] + steps[-1]) / 2 + 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: aggregate_curve([1, 2, 3], [[1, 2]]), "shape"),
        (lambda: aggregate_curve([], [[]]), "at least one of each"),
        (lambda: aggregate_curve([1], np.ones((2, 2, 2, 1))), "seeds, tasks, points"),
        (lambda: area_under_curve([0, 0], [[1, 2]]), "increase"),
        (lambda: area_under_curve([0, 1], [[1, 2], [NAN, NAN]]), "1 of 2 runs have no value"),
        (lambda: area_under_curve([0, 1], [[NAN, 2]]), "at least two points"),
        (lambda: area_under_curve([0, 1, 2], [[1, np.inf, 2]]), "finite value"),
        (lambda: area_under_curve([0, 1], [[1, 2]], before=NAN), "before is"),
    ],
)
def test_what_is_no_curve_is_refused(call, message):
    with pytest.raises(ForageError, match=message):
        call()
