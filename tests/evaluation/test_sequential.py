"""Comparisons at several looks: the error of all looks together, and scores that are too few to decide."""

import math

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.evaluation.comparison import welch_difference
from forage.evaluation.sequential import look_confidence, look_sizes, repeated_interval


@pytest.mark.parametrize(("looks", "confidence"), [(1, 0.95), (2, 0.95), (5, 0.95), (4, 0.8)])
def test_all_looks_together_miss_as_often_as_one(looks, confidence):
    """The means of 1, 2, 4 ... blocks of seeds, drawn; a level of 95 % at each of five looks would miss in 16 %."""
    scores = np.random.default_rng(0).normal(size=(100_000, 2 ** (looks - 1)))
    z = np.stack([scores[:, :n].sum(1) / math.sqrt(n) for n in 2 ** np.arange(looks)])
    level = look_confidence(looks, confidence)
    bound = np.quantile(np.abs(np.random.default_rng(1).normal(size=1_000_000)), level)
    assert np.mean((np.abs(z) > bound).any(0)) == pytest.approx(1 - confidence, abs=0.004)


def test_the_interval_is_welchs_at_the_level_of_a_look():
    a, b = [1.0, 2.0, 4.0, 5.0, 9.0], [0.0, 1.0, 1.5, 2.0, 3.0]
    assert repeated_interval(a, b) == welch_difference(a, b, look_confidence())
    assert repeated_interval(a, b, looks=1) == pytest.approx(welch_difference(a, b))
    assert look_sizes() == (5, 10, 20, 40, 80)


def test_paired_scores_are_judged_by_their_differences():
    """Differences 1, 2, 3: mean 2, deviation 1, so 2 +- 4.3027 / sqrt(3) with 2 degrees at 95 %."""
    a, b = np.array([101.0, 52.0, 3.0]), np.array([100.0, 50.0, 0.0])
    half = 4.302653 / math.sqrt(3)
    assert repeated_interval(a, b, looks=1, paired=True) == pytest.approx((2.0, 2 - half, 2 + half))
    assert repeated_interval(a, b, looks=1)[1] < -100
    # Equal sides do not count here, equal differences do.
    assert repeated_interval(np.arange(5.0) + 1, np.arange(5.0), paired=True)[1:] == (-math.inf, math.inf)
    assert np.isfinite(repeated_interval([1.0, 2, 4, 5, 9], [0.0] * 5, paired=True)[1])
    with pytest.raises(ForageError, match="as many on both sides, not 3 and 2"):
        repeated_interval(a, b[:2], paired=True)


@pytest.mark.parametrize("side", [[500.0], [3.0, 3.1, 2.9, 3.05, 90.0]])
def test_scores_without_spread_or_with_a_lone_one_wait_for_twenty_seeds(side):
    other = np.arange(5.0)
    few, many = side * (5 // len(side)), side * (20 // len(side))
    assert repeated_interval(few, other)[1:] == (-math.inf, math.inf)
    assert repeated_interval(other, few)[1:] == (-math.inf, math.inf)
    assert np.isfinite(repeated_interval(many, np.arange(20.0))[1])


@pytest.mark.parametrize("ask", [lambda: look_sizes(1), lambda: look_sizes(5, 0), lambda: look_confidence(0)])
def test_what_is_no_look_is_refused(ask):
    with pytest.raises(ForageError, match="at least one"):
        ask()
