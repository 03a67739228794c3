"""Seeds needed: against the theoretical power of a t-test, against the formula, and their report."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from forage.core.types import ForageError
from forage.evaluation.power import SeedsNeeded, normal_approximation, seeds_needed

# Scores as a normal distribution has them, at equal steps of probability, with standard deviation 1.
NORMAL = scipy.stats.norm.ppf((np.arange(40) + 0.5) / 40)
NORMAL = NORMAL / NORMAL.std(ddof=1)


def in_theory(difference: float, power: float = 0.8) -> int:
    """The number of seeds each for a two-sided t-test at 5 %, both with standard deviation 1."""
    for n in range(2, 1000):
        freedom, shift = 2 * n - 2, difference / math.sqrt(2 / n)
        if scipy.stats.nct.sf(scipy.stats.t.isf(0.025, freedom), freedom, shift) >= power:
            return n
    raise AssertionError


def test_formula_by_hand():
    # z(0.975) = 1.959964, z(0.8) = 0.841621: 7.848880 * (2 + 4.5) / 9, where variances are 2 and 4.5.
    samples = [np.array([4.0, 6.0]), np.array([0.5, 3.5])]
    assert normal_approximation(samples) == pytest.approx(7.848880 * 6.5 / 9, rel=1e-6)
    assert normal_approximation([np.array([1.0, 3.0])]) == pytest.approx(7.848880 * 2 / 4, rel=1e-6)
    assert normal_approximation([samples[0], samples[0]]) == math.inf


@pytest.mark.parametrize("difference", [2.0, 1.0, 0.5])
def test_seeds_needed_are_as_many_as_theory_says(difference):
    found = seeds_needed(NORMAL + difference, NORMAL)
    assert found.seeds == pytest.approx(in_theory(difference), rel=0.08, abs=1)
    assert found.power >= 0.8
    # The normal approximation leaves out that the variance is guessed, too: a little over one seed, as is known.
    assert found.formula == pytest.approx(2 * 7.848880 / difference**2, rel=1e-6)
    assert -1 <= found.seeds - found.formula <= 5


def test_pairs_needed_are_fewer_where_seeds_go_together():
    random = np.random.default_rng(0)
    hard = random.normal(0, 10, size=12)
    a, b = hard + random.normal(1, 1, size=12), hard + random.normal(0, 1, size=12)
    together, apart = seeds_needed(a, b, paired=True), seeds_needed(a, b)
    assert together.seeds < 40
    assert apart.seeds is None
    assert together.formula == pytest.approx(normal_approximation([a - b]))


def test_few_seeds_that_happen_to_agree_do_not_look_certain():
    # Drawn as they are, one in nine pairs of two seeds would be two of the same, of no variance at all.
    found = seeds_needed([1.0, 2.0, 3.0], [0.0, 1.0, 2.0])
    assert found.seeds > in_theory(1.0)
    assert seeds_needed([1.0, 2.0, 3.0], [-9.0, -8.0, -7.0]).seeds == 5  # fewer are never advised


def test_the_power_is_what_it_says_though_variances_are_guesses():
    """Pilots of five seeds with means exactly 1.5 deviations apart, and the true power of each one's advice."""
    random = np.random.default_rng(1)
    reached = []
    for _ in range(60):
        a, b = (x - x.mean() for x in random.normal(size=(2, 5)))
        n = seeds_needed(a + 1.5, b, simulations=400).seeds or 200
        freedom, shift = 2 * n - 2, 1.5 / math.sqrt(2 / n)
        reached.append(scipy.stats.nct.sf(scipy.stats.t.isf(0.025, freedom), freedom, shift))
    assert 0.8 < np.mean(reached) < 0.95


def test_what_no_number_of_seeds_would_settle():
    found = seeds_needed([1.0, 2.0], [1.0, 2.0], most=50)
    assert found.seeds is None
    assert found.missing_seeds is None
    assert found.formula == math.inf
    assert 0.02 < found.power < 0.09  # by luck alone
    assert str(found).startswith("more than 50 seeds (by the normal approximation over a million); with 50 the chance")
    assert seeds_needed([1.0, 1.0], [1.0, 1.0], most=3).seeds is None
    assert seeds_needed([2.0, 2.0], [1.0, 1.0]).seeds == 5  # no spread, a difference, and fewer decide nothing


def test_what_it_says():
    assert str(SeedsNeeded(23, 0.81, 21.4, 5, 200)) == (
        "23 seeds, 18 more than there are (by the normal approximation 21)"
    )
    assert str(SeedsNeeded(4, 0.9, 3.2, 5, 200)) == "4 seeds, which there are (by the normal approximation 3)"
    assert str(SeedsNeeded(None, 0.31, 812.2, 5, 200)) == (
        "more than 200 seeds (by the normal approximation 812); with 200 the chance is 31%"
    )
    assert SeedsNeeded(4, 0.9, 3.2, 5, 200).missing_seeds == 0


def test_the_same_each_time():
    a, b = NORMAL[:6], NORMAL[:6] + 0.9
    assert seeds_needed(a, b) == seeds_needed(a, b)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: seeds_needed([1.0], [1.0, 2.0]), "One seed does not show"),
        (lambda: seeds_needed([], [1.0, 2.0]), "at least one of each"),
        (lambda: seeds_needed([1.0, np.nan], [1.0, 2.0]), "1 of 2 scores that are not finite"),
        (lambda: seeds_needed(np.ones((2, 2)), np.ones((2, 2))), "on one task"),
        (lambda: seeds_needed([1.0, 2.0], [1.0, 2.0, 3.0], paired=True), "2 and 3"),
        (lambda: seeds_needed([1.0, 2.0], [1.0, 2.0], power=80), "power lies between 0 and 1"),
        (lambda: seeds_needed([1.0, 2.0], [1.0, 2.0], significance=0), "significance lies between"),
        (lambda: seeds_needed([1.0, 2.0], [1.0, 2.0], most=1), "at least 2"),
    ],
)
def test_what_cannot_be_planned_is_refused(call, message):
    with pytest.raises(ForageError, match=message):
        call()
