"""Shares of points against numbers worked by hand."""

import math

import numpy as np
from small import compute

from forage_papers.ops.two_hot import symexp, two_hot


def test_a_number_is_told_as_shares_of_the_points_beside_it():
    found = compute(two_hot, np.array([-3.0, -1.0, 0.25, 2.0, 3.0, 9.0]), np.array([-1.0, 0.0, 1.0, 3.0]))
    right = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0.75, 0.25, 0], [0, 0, 0.5, 0.5], [0, 0, 0, 1], [0, 0, 0, 1]]
    np.testing.assert_allclose(found, right, atol=1e-6)


def test_symexp_is_odd_and_grows_as_the_exponential_does():
    found = compute(symexp, np.array([-2.0, 0.0, 1e-4, 2.0]))
    np.testing.assert_allclose(found, [1 - math.exp(2), 0, math.expm1(1e-4), math.exp(2) - 1], rtol=1e-5)
