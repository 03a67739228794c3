"""Rewards that draw right answers to the shortest one, by hand."""

import numpy as np
import pytest
from test_group_advantages import close

from forage_papers.ops.tokens import lengths


def test_rewards_by_length():
    length = np.float32([[10, 20, 40], [10, 20, 60]])
    right = np.array([[False, True, True], [False, False, False]])
    close(lengths.optimal_length(length, right), [20, 30])
    close(lengths.shorter_better(length, right), [[-0.01, 1, 0.98], [-0.02, -0.01, -0.03]])
    # Right answers are one deviation (10) below and above their mean (30); sigmoid(1) = 0.731059
    close(lengths.length_discount(length, right, 0.2), [[0, 1 - 0.2 * 0.268941, 1 - 0.2 * 0.731059], [0, 0, 0]])


def test_only_the_best_groups_are_asked_to_be_short():
    right = np.array([[True, False], [True, True], [False, False], [True, False]])
    penalised = np.full((4, 2), 0.7, np.float32)
    found = lengths.length_gate(right, penalised, 0.5)  # the second group, then the first of two that tie
    close(found, [[0.7, 0.7], [0.7, 0.7], [0, 0], [1, 0]])
    close(lengths.length_gate(right, penalised, 0.0), right)


def test_rewards_fall_and_rise_along_a_cosine():
    """Of 6 tokens at most: none, a third and a half of the way, and too long within a margin of 1."""
    length, right = np.array([0, 2, 3, 5, 0, 3, 6]), np.array([True] * 4 + [False] * 3)
    found = lengths.cosine_reward(length, right, 6, ((2.0, 1.0), (-10.0, 0.0)), -7.0, 1)
    np.testing.assert_allclose(found, [2, 1.75, 1.5, -7, -10, -5, -7], rtol=1e-5)


@pytest.mark.thorough
def test_repeated_n_grams_are_counted_once_they_come_again():
    """Of 1 2 1 2 1 the pairs 1 2, 2 1, 1 2, 2 1: two of four are had before. Padding is none."""
    tokens, there = np.array([1, 2, 1, 2, 1, 0, 0]), np.array([True] * 5 + [False] * 2)
    assert lengths.repeated_share(tokens, there, 2) == 0.5
    assert lengths.repeated_share(tokens, there, 4) == 0 and lengths.repeated_share(tokens, there, 8) == 0
    assert lengths.repeated_share(tokens, np.arange(7) < 1, 2) == 0
