"""Effective ranks and how they move, by hand."""

import jax
import numpy as np
import pytest

from forage_papers.ops.tokens.rank import effective_rank, rank_bonus, rank_dynamics


@pytest.mark.thorough
def test_the_rank_of_states_is_that_of_their_singular_values():
    """Less their mean, states of a square have two equal singular values, those of a line one."""
    square = np.float32([[1, 1], [1, -1], [-1, 1], [-1, -1], [9, 9]])
    there = np.array([True] * 4 + [False])
    np.testing.assert_allclose(effective_rank(square, there), 2, rtol=1e-4)
    line = np.float32([[0, 0], [1, 2], [2, 4]])
    np.testing.assert_allclose(effective_rank(line, np.ones(3, bool)), 1, rtol=1e-4)
    assert effective_rank(line, np.array([True, False, False])) == 0


@pytest.mark.thorough
def test_velocity_and_acceleration_are_differences_from_the_past():
    hidden = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    there = np.arange(9) < 8
    m = [float(effective_rank(hidden[: end + 1], np.ones(end + 1, bool))) for end in (2, 4, 6)]
    moved = [m[1] - m[0], m[2] - (m[0] + m[1]) / 2]
    expected = [float(effective_rank(hidden[:8], np.ones(8, bool))), np.mean(moved), moved[1] - moved[0]]
    measure = jax.jit(rank_dynamics, static_argnums=2)
    np.testing.assert_allclose(measure(hidden, there, 2), expected, rtol=1e-4)
    np.testing.assert_allclose(measure(hidden, there, 4)[1:], [0, 0])  # one look alone, at the fifth state
    np.testing.assert_allclose(measure(hidden, there, 9)[1:], [0, 0])


@pytest.mark.thorough
def test_the_bonus_turns_to_velocity_where_the_rank_slows_down():
    """Of 2, 4, -1 with usual 1, 2, 1: apart by 1, 1 and -2, beta = sigmoid(-4); by clip no more than 5."""
    beta = 1 / (1 + np.exp(4))
    dynamics, usual = np.float32([[2, 4, -1], [99, 2, 99]]), np.float32([1, 2, 1])
    expected = [beta * np.tanh(1) + (1 - beta) * np.tanh(1), np.tanh(5) / (1 + np.exp(-10))]
    np.testing.assert_allclose(rank_bonus(dynamics, usual, 2.0), expected, rtol=1e-5)
    low = rank_bonus(np.float32([[0.5, 2, 1]]), usual, 2.0)
    np.testing.assert_allclose(low, [np.tanh(-0.5) / 2], rtol=1e-5)
