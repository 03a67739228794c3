"""Quality of choices by estimates: a table of five policies worked by hand, and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from forage.core.types import ForageError
from forage.evaluation.off_policy.selection import (
    normalised_mse,
    normalised_regret,
    portfolio,
    rank_correlation,
    regret,
    relative_mse,
    sharpe_ratio,
)

VALUES = [2.0, 10.0, 4.0, 6.0, 8.0]
ESTIMATES = [9.0, 5.0, 6.0, 8.0, 7.0]  # in order: the policies of values 2, 6, 8, 4, 10


def test_portfolios_by_hand():
    """Top 1: 2. Top 2: 2, 6. Top 3: 2, 6, 8: mean 16/3, variance 104/3 - 256/9 = 56/9. Top 5: mean 6, variance 8."""
    one = portfolio(ESTIMATES, VALUES, 1, baseline=5.0)
    assert one[:5] == (2, 2, 2, 0, 0)
    assert np.isnan(one.sharpe_ratio)  # no risk and no return
    assert portfolio(ESTIMATES, VALUES, 1, baseline=1.0).sharpe_ratio == np.inf
    two = portfolio(ESTIMATES, VALUES, 2, baseline=5.0, threshold=3.0)
    assert two == (6, 2, 4, 2, 0.5, 0.5)
    three = portfolio(ESTIMATES, VALUES, 3, baseline=5.0, threshold=7.0)
    np.testing.assert_allclose(three, [8, 2, 16 / 3, np.sqrt(56 / 9), 2 / 3, 3 / np.sqrt(56 / 9)])
    assert sharpe_ratio(ESTIMATES, VALUES, 5, baseline=5.0) == pytest.approx(5 / np.sqrt(8))
    assert sharpe_ratio(ESTIMATES, VALUES, 3, baseline=9.0) == 0  # the behaviour policy is kept


def test_under_and_overestimation_differ_in_risk_alone():
    """The paper's first example in small: one misses a good policy, one overrates a bad one; regret is equal."""
    values = [1.0, 2.0, 8.0, 9.0, 10.0]
    shy, bold = [1.0, 2.0, 3.0, 9.0, 10.0], [9.5, 2.0, 8.0, 9.0, 10.0]
    assert regret(shy, values, 3) == regret(bold, values, 3) == 0
    assert sharpe_ratio(shy, values, 2, 5.0) > 3 * sharpe_ratio(bold, values, 2, 5.0)


def test_regret_by_hand():
    assert [regret(ESTIMATES, VALUES, k) for k in range(1, 6)] == [8, 4, 2, 2, 0]
    assert normalised_regret(ESTIMATES, VALUES, 2) == 0.5
    assert normalised_regret([1, 2], [3, 3]) == 0


def test_errors_by_hand():
    assert relative_mse([1, 6], [2, 4]) == pytest.approx((0.25 + 0.25) / 2)
    assert normalised_mse([1, 6], [2, 4]) == pytest.approx(2.5 / 4)
    assert np.isnan(normalised_mse([1, 6], [4, 4]))
    with pytest.raises(ForageError, match="other than 0"):
        relative_mse([1, 2], [0, 1])


def test_rank_correlation_is_scipys():
    random = np.random.default_rng(0)
    assert rank_correlation(VALUES, VALUES) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert np.isnan(rank_correlation([1, 1], [1, 2]))
    for _ in range(20):
        x, y = random.integers(0, 6, size=(2, 9))
        assert rank_correlation(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1, 2], [1, 2], 3, 0.0), "top 3 of 2"),
        (([1, 2], [1, 2], 0, 0.0), "top 0 of 2"),
        (([1, 2], [1, 2], 1.5, 0.0), "top 1.5 of 2 .* a whole number"),
        (([1, 2], [1, 2, 3], 1, 0.0), "of the same policies"),
        (([1, np.nan], [1, 2], 1, 0.0), "finite numbers; leave out"),
        (([1, 2], [1, 2], 1, np.nan), "baseline and threshold"),
    ],
)
def test_what_is_refused(arguments, words):
    with pytest.raises(ForageError, match=words):
        portfolio(*arguments)
