"""Rewards that draw right answers to the shortest one, by hand."""

import numpy as np
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
