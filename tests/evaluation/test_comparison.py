"""Comparisons by hand, against SciPy, and by their error rates in repeated experiments."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np
import pytest
import scipy.stats

from forage.core.types import ForageError
from forage.evaluation.comparison import (
    PairedDifference,
    bootstrap_difference,
    paired_comparison,
    probability_of_improvement,
    sign_flip_test,
    welch_difference,
    welch_p,
)
from forage.evaluation.statistics import Score

NAN = np.nan


def test_probability_of_improvement_by_hand():
    drawn = functools.partial(probability_of_improvement, method="bootstrap")
    assert drawn([2, 3], [0, 1]) == Score(1, 1, 1, 2)
    assert drawn([0, 1], [2, 3]) == Score(0, 0, 0, 2)
    assert drawn([5, 5], [5, 5]) == Score(0.5, 0.5, 0.5, 2)
    # Pairs of 1, 2, 3 against 0, 2: wins 1, 0; 1, a draw; 1, 1, so 4.5 of 6.
    mixed = drawn([1, 2, 3], [0, 2])
    assert mixed.value == pytest.approx(4.5 / 6)
    assert mixed.seeds == 2
    # One draw in four has only 2 for b. Of those, 1 in 27 has 1, 1, 1 for a (score 0), 3 in 27 have 1, 1, 2
    # (score 1/6): below 1/6 lie 0.9 %, up to it 3.7 %. One draw in four has only 0 for b: score 1.
    assert mixed.low == pytest.approx(1 / 6)
    assert mixed.high == 1
    # Always better at one task, always worse at the other.
    assert drawn([[1, 0], [1, 0]], [[0, 1], [0, 1]]) == Score(0.5, 0.5, 0.5, 2)
    assert drawn([3], [1, 2]) == probability_of_improvement([3], [1, 2]) == Score(1, None, None, 1)


def test_the_interval_of_a_probability_by_hand():
    # All of n trials succeed: at the lower end they do so with probability 2.5 %, p^n = 0.025.
    for seeds, tasks in ((3, 1), (5, 1), (2, 3)):
        found = probability_of_improvement(np.ones((seeds, tasks)), np.zeros((seeds, tasks)))
        assert (found.value, found.low, found.high) == pytest.approx((1, 0.025 ** (1 / (seeds * tasks)), 1))
        lost = probability_of_improvement(np.zeros((seeds, tasks)), np.ones((seeds, tasks)))
        assert (lost.value, lost.low, lost.high) == pytest.approx((0, 0, 1 - 0.025 ** (1 / (seeds * tasks))))
    # Draws alone are one success of two trials: 1 - (1 - p)^2 = 0.025 at the lower end.
    assert probability_of_improvement([5, 5], [5, 5]).low == pytest.approx(1 - 0.975**0.5)
    # Eight of ten: SciPy's exact interval of a binomial share; the smaller side counts.
    exact = scipy.stats.binomtest(8, 10).proportion_ci(method="exact")
    found = probability_of_improvement(np.ones(10), np.repeat([0.0, 2.0], [16, 4]))
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_interval_of_a_probability_holds_the_truth_as_often_as_it_says(seeds):
    random = np.random.default_rng(seeds)
    for truth in (0.75, 0.9, 0.95):
        shift = scipy.stats.norm.ppf(truth)
        kinds = (
            lambda n, s=shift: (random.normal(s * 2**0.5, 1, n), random.normal(0, 1, n)),
            lambda n, s=shift: (np.full(n, s), random.normal(0, 1, n)),  # as variable as a share of n can be
        )
        for draw in kinds:
            found = [probability_of_improvement(*draw(seeds)) for _ in range(400)]
            assert np.mean([one.low <= truth <= one.high for one in found]) > 0.93


def test_probability_of_improvement_is_mann_and_whitneys_and_as_rliables_its_interval_a_plain_bootstrap():
    random = np.random.default_rng(0)
    a, b = random.normal(0.5, 1, size=9), random.normal(size=7)
    found = probability_of_improvement(a, b, method="bootstrap", resamples=4000)
    assert found.value == pytest.approx(scipy.stats.mannwhitneyu(a, b).statistic / 63)
    plain = []
    for _ in range(4000):
        drawn_a, drawn_b = random.choice(a, 9), random.choice(b, 7)
        plain.append(np.mean(drawn_a[:, None] > drawn_b))
    assert (found.low, found.high) == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.03)


def test_the_interval_of_a_difference_by_hand():
    # Means 4 and 1, squared errors 4 / 2 and 1 / 2: 2.5 in all, with 2.5^2 / (2^2 + 0.5^2) = 1.47 degrees of freedom.
    a, b = [4 - 2**0.5, 4 + 2**0.5], [1 - 0.5**0.5, 1 + 0.5**0.5]
    half = scipy.stats.t.isf(0.025, 6.25 / 4.25) * 2.5**0.5
    assert welch_difference(a, b) == pytest.approx((3, 3 - half, 3 + half))
    # All of the error is that of one side, and so are the degrees of freedom: 1 +- 4.303 / sqrt(3).
    assert welch_difference([1.0, 2, 3], [1.0, 1, 1, 1]) == pytest.approx((1, 1 - 2.4841, 1 + 2.4841), abs=1e-4)
    for enough in (5, 6, 7):  # the mean of equal numbers is not always one of them
        assert welch_difference([0.3] * enough, [0.1] * 9) == pytest.approx((0.3 - 0.1,) * 3, abs=1e-15)
        assert np.ptp(welch_difference([0.3] * enough, [0.1] * 9)) == 0
    for few in (2, 4):  # seeds that fail may be rare, so that few without any spread decide nothing
        assert welch_difference([500.0] * few, [460.0] * 9) == (40, -np.inf, np.inf)
        assert welch_difference([460.0] * 9, [500.0] * few) == (-40, -np.inf, np.inf)


def test_the_interval_of_a_difference_is_scipys():
    random = np.random.default_rng(0)
    a, b = random.exponential(size=5), 3 * random.normal(size=9)
    for confidence in (0.8, 0.95):
        expected = scipy.stats.ttest_ind(a, b, equal_var=False).confidence_interval(confidence)
        assert welch_difference(a, b, confidence)[1:] == pytest.approx(tuple(expected))
    assert welch_p(a, b) == pytest.approx(scipy.stats.ttest_ind(a, b, equal_var=False).pvalue)
    assert welch_p(a, b, expected[0]) == pytest.approx(1 - confidence)  # the end of the interval is as far as it goes
    constant = [0.3] * 5
    assert (welch_p(constant, [0.1] * 5), welch_p(constant, constant), welch_p(constant, [0.1] * 4)) == (0, 1, 1)


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_equal_algorithms_are_seldom_called_different_however_few_seeds(seeds):
    random = np.random.default_rng(seeds)
    for drawn in (random.normal, random.exponential):
        found = [welch_difference(*drawn(size=(2, seeds))) for _ in range(1000)]
        assert np.mean([low > 0 or high < 0 for _, low, high in found]) < 0.065


def test_the_bootstrap_of_a_difference_is_that_of_the_formula_with_many_seeds():
    random = np.random.default_rng(0)
    a, b = random.normal(1.0, 1.0, 400), random.normal(0.0, 2.0, 300)
    assert bootstrap_difference(a, b) == pytest.approx(welch_difference(a, b), abs=0.02)


def test_paired_comparison_by_hand():
    # Differences 1, 2, 3 have mean 2. Of 8 choices of signs only two give a sum as far from 0 as 6.
    found = paired_comparison([11.0, 22.0, 33.0], [10.0, 20.0, 30.0], method="percentile")
    assert found.difference.value == 2
    assert found.difference.seeds == 3
    # Of the 27 draws of three, 1 has the mean 1, and 3 have 4/3: below 1 lies nothing, up to 1 lie 3.7 %.
    assert (found.difference.low, found.difference.high) == (1, 3)
    assert found.permutation == 2 / 8
    assert found.wilcoxon == 2 / 8  # all ranks on one side, likewise
    assert found.unshared == 0


def test_only_shared_seeds_are_compared_whatever_their_order():
    a, b = [5.0, 1.0, 2.0, 3.0], [30.0, 0.0, 20.0]
    found = paired_comparison(a, b, seeds_a=[7, 0, 1, 2], seeds_b=[2, 0, 1])
    ordered = paired_comparison([1.0, 2.0, 3.0], [0.0, 20.0, 30.0])
    assert found == dataclasses.replace(ordered, unshared=1)
    assert found.difference.value == pytest.approx((1 - 18 - 27) / 3)
    assert str(found).endswith(", 1 without a partner left out")


def test_what_a_seed_makes_hard_for_both_cancels():
    random = np.random.default_rng(0)
    hard = random.normal(0, 100, size=10)
    a, b = hard + random.normal(2, 1, size=10), hard + random.normal(0, 1, size=10)
    apart = probability_of_improvement(a, b)
    assert apart.low < 0.5 < apart.high
    together = paired_comparison(a, b)
    assert together.difference.low > 0
    assert max(together.wilcoxon, together.permutation) < 0.05


@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_paired_interval_is_scipys_bootstrap(method):
    d = np.random.default_rng(3).exponential(size=12) - 0.5
    expected = scipy.stats.bootstrap(
        (d,), np.mean, method="BCa" if method == "bca" else method, n_resamples=40_000, rng=np.random.default_rng(4)
    ).confidence_interval
    found = paired_comparison(d, np.zeros(12), method=method, resamples=40_000).difference
    assert (found.low, found.high) == pytest.approx(expected, abs=0.02)


def test_wilcoxon_is_scipys():
    random = np.random.default_rng(0)
    a, b = random.normal(0.4, 1, size=15), random.normal(size=15)
    assert paired_comparison(a, b).wilcoxon == scipy.stats.wilcoxon(a, b).pvalue


def test_sign_flips_by_hand_and_by_enumeration():
    assert sign_flip_test([1.0, 2.0, -3.0]) == 1  # the sum is 0, and no sum is nearer
    assert sign_flip_test([1.0, 1.0, 1.0, -1.0]) == 10 / 16  # sums of at least 2 either way: (1 + 4) / 16 each
    assert sign_flip_test([0.0, 0.0]) == 1
    d = np.random.default_rng(1).normal(0.3, 1, size=7)
    sums = [abs(np.dot(signs, d)) for signs in itertools.product([1, -1], repeat=7)]
    assert sign_flip_test(d) == np.mean(np.array(sums) >= abs(d.sum()) - 1e-12)
    assert sign_flip_test([0.1, 0.2, 0.3, 0.1]) == 2 / 16  # equal sums count as equal, whatever their last digits


def test_drawn_sign_flips_are_near_the_exact_ones():
    d = np.random.default_rng(1).normal(0.3, 1, size=17)
    signs = 1 - 2.0 * (np.arange(2**17)[:, None] >> np.arange(17) & 1)
    exact = np.mean(np.abs(signs @ d) >= abs(d.sum()) - 1e-12)
    assert sign_flip_test(d) == pytest.approx(exact, abs=0.005)
    assert sign_flip_test(np.ones(40)) == 1 / 100_001  # never seen among those drawn, so at most that


def test_no_difference_at_all():
    same = paired_comparison([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert same == PairedDifference(Score(0, 0, 0, 3), 1.0, 1.0, 0)
    assert str(same) == "0.0 [0.0, 0.0] (3 seeds): p = 1 (Wilcoxon), 1 (permutation)"


def test_equal_algorithms_are_called_different_about_as_often_as_the_level_says():
    random = np.random.default_rng(0)
    found = [paired_comparison(*random.normal(size=(2, 8)), resamples=1) for _ in range(400)]
    for p in ([x.wilcoxon for x in found], [x.permutation for x in found]):
        assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.08


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: probability_of_improvement(np.ones((2, 3)), np.ones((2, 4))), "same tasks"),
        (lambda: probability_of_improvement([], [1.0]), "at least one of each"),
        (lambda: probability_of_improvement([1.0, 2.0], [1.0, 2.0], method="normal"), "binomial or bootstrap"),
        (lambda: welch_difference([1.0], [1.0, 2.0]), "2 or more finite scores"),
        (lambda: welch_difference([1.0, NAN], [1.0, 2.0]), "2 or more finite scores"),
        (lambda: welch_difference([1.0, 2.0], [1.0, 2.0], confidence=95), "between 0 and 1"),
        (lambda: bootstrap_difference([1.0], [1.0, 2.0]), "2 or more finite scores"),
        (lambda: paired_comparison([1.0], [2.0]), "share 1 seed, and"),
        (lambda: paired_comparison([1.0, 2.0], [2.0]), "a partner for each score, and got 2 and 1"),
        (lambda: paired_comparison([1.0, 2.0], [1.0, 2.0], [0, 1], [2, 3]), "share 0 seeds"),
        (lambda: paired_comparison([1.0, 2.0], [1.0, 2.0], [0, 1]), "seeds of both"),
        (lambda: paired_comparison([1.0, 2.0], [1.0, 2.0], [0, 0], [0, 1]), "2 scores and 1 different"),
        (lambda: paired_comparison([1.0, NAN], [1.0, 2.0]), "1 of 2 scores that are not finite"),
        (lambda: paired_comparison([], []), "at least one of each"),
        (lambda: paired_comparison(np.ones((2, 2)), np.ones((2, 2))), "one task"),
        (lambda: paired_comparison([1.0, 2.0], [1.0, 2.0], method="t"), "bca or percentile"),
    ],
)
def test_what_cannot_be_compared_is_refused(call, message):
    with pytest.raises(ForageError, match=message):
        call()
