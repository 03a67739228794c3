"""Profiles by hand, against a plain bootstrap, and consistency among them."""

from __future__ import annotations

import numpy as np
import pytest

from forage.core.types import ForageError
from forage.evaluation import statistics
from forage.evaluation.profiles import average_score_distribution, score_distribution

SCORES = np.array([[0.0, 1.0], [1.0, 3.0]])  # two seeds, two tasks, whose means are 0.5 and 2
BOTH = (score_distribution, average_score_distribution)


def test_score_distribution_by_hand():
    found = score_distribution(SCORES, [-1.0, 0.0, 0.5, 1.0, 3.0])
    np.testing.assert_array_equal(found.share, [1, 0.75, 0.75, 0.25, 0])
    assert found.seeds == 2
    # Above 1/2: task 1 has 0, 1/2 or 1 with chances 1/4, 1/2, 1/4; task 2 always 1.
    assert (found.low[2], found.high[2]) == (0.5, 1)
    assert (found.low[0], found.high[0], found.low[-1], found.high[-1]) == (1, 1, 0, 0)


def test_average_score_distribution_by_hand():
    found = average_score_distribution(SCORES, [0.0, 0.5, 1.9, 2.0])
    np.testing.assert_array_equal(found.share, [1, 0.5, 0.5, 0])  # above, not at
    # Above 1/2: task 1 where 1 is drawn twice, 1 in 4; task 2 always.
    assert (found.low[1], found.high[1]) == (0.5, 1)
    # Above 2: task 1 never; task 2 where 3 is drawn twice.
    assert (found.low[3], found.high[3]) == (0, 0.5)


@pytest.mark.parametrize("profile", BOTH)
def test_band_is_a_plain_stratified_bootstrap(profile):
    random = np.random.default_rng(0)
    scores, thresholds = random.exponential(size=(6, 5)), np.linspace(0, 3, 13)
    found = profile(scores, thresholds, resamples=8000)
    drawn = np.stack([random.choice(task, (8000, 6)) for task in scores.T], axis=-1)  # resamples seeds tasks
    if profile is average_score_distribution:
        drawn = drawn.mean(axis=1, keepdims=True)
    plain = [(drawn > threshold).mean(axis=(1, 2)) for threshold in thresholds]
    # Shares are multiples of 1 in 30, or of 1 in 5: an end may fall on the next.
    step = 1 / 5 if profile is average_score_distribution else 1 / 30
    expected = np.quantile(plain, [0.025, 0.975], axis=1)
    np.testing.assert_allclose([found.low, found.high], expected, atol=step + 1e-9)
    assert np.mean(np.abs([found.low, found.high] - expected)) < step / 4
    assert (found.low <= found.share).all()
    assert (found.share <= found.high).all()


def test_the_area_under_a_profile_is_the_mean():
    scores = np.random.default_rng(0).uniform(0, 2, size=(5, 4))
    thresholds = np.linspace(0, 2, 2001)
    for profile in BOTH:
        assert np.trapezoid(profile(scores, thresholds).share, thresholds) == pytest.approx(scores.mean(), abs=1e-3)


def test_scores_of_one_task_and_of_one_seed():
    found = score_distribution([1.0, 2.0, 3.0], [1.5])
    assert found.share == pytest.approx([2 / 3])
    for profile in BOTH:
        alone = profile([[1.0, 2.0, 3.0]], [1.5, 2.5])
        np.testing.assert_allclose(alone.share, [2 / 3, 1 / 3])
        assert np.isnan([alone.low, alone.high]).all()
        assert alone.seeds == 1


def test_chunks_change_nothing_but_memory(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(6, 3))
    whole = average_score_distribution(scores, [0.0, 0.1])
    monkeypatch.setattr(statistics, "CHUNK", 6 * 3 * 300)
    for one, other in zip(average_score_distribution(scores, [0.0, 0.1]), whole, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("profile", BOTH)
@pytest.mark.parametrize(
    ("scores", "thresholds", "message"),
    [
        ([], [1.0], "at least one of each"),
        ([1.0, np.nan], [1.0], "1 of 2 scores that are not finite"),
        ([1.0, 2.0], [], "finite thresholds"),
        ([1.0, 2.0], [np.nan], "finite thresholds"),
        ([1.0, 2.0], [[1.0]], "finite thresholds"),
    ],
)
def test_what_has_no_profile_is_refused(profile, scores, thresholds, message):
    with pytest.raises(ForageError, match=message):
        profile(scores, thresholds)
