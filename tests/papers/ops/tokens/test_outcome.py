"""Credit that is learned from outcomes, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage_papers.ops.tokens import outcome
from forage_papers.ops.tokens.borda import Guess, borda_acquisition

MASK = np.array([[True, True, False], [True, True, True]])
RIGHT = np.array([True, False])


@pytest.mark.thorough
def test_tokens_count_by_the_chance_so_far():
    """Means of log 3, then log 3 and -log 3: chances 3/4 and 1/2 of being right; the wrong one is sure at -log 3."""
    score = np.log(3) * np.float32([[1, -1, 9], [-1, -1, 1]])
    found = outcome.token_weights(score, MASK, RIGHT, 0.5)
    sigmoid = 1 / (1 + np.exp(-np.log(3) / 3))
    np.testing.assert_allclose(found, [[0.5, 0, 0], [0.5, 0.5, 2 * sigmoid - 1]], rtol=1e-5)
    loss = outcome.outcome_entropy(score, MASK, RIGHT, np.array([True, True]))
    np.testing.assert_allclose(loss, (np.log(2) - np.log(sigmoid)) / 2, rtol=1e-5)


def test_right_answers_are_cloned_and_wrong_ones_unlearned():
    """Two right tokens of weights 1 and 1/2 and A = 2, three wrong ones of weight 1 and A = -1, at half."""
    weight, advantage = np.float32([[1, 0.5, 0], [1, 1, 1]]), np.float32([[2], [-1]])
    slope = jax.grad(lambda now: outcome.outcome_loss(now, advantage, weight, MASK, RIGHT, 0.5))(jnp.zeros((2, 3)))
    np.testing.assert_allclose(slope, [[-1, -0.5, 0], [0.5 / 3] * 3], rtol=1e-5)


@pytest.mark.thorough
def test_one_answer_of_each_kind_is_picked():
    right = np.array([[False, True, True, False], [True] * 4, [False] * 4])
    assert outcome.pick_pairs(right).tolist() == [[True, True, False, False], [False] * 4, [False] * 4]


@pytest.mark.thorough
def test_runs_are_paired_in_their_order():
    """Successes 0 and 3 with failures 1 and 2: values 1 - 0 and 2 - 2; a success that is left has no pair."""
    value = jnp.float32([[1, 0, 2, 2, 9]])
    right = np.array([[True, False, False, True, True]])
    (loss, pairs), slope = jax.value_and_grad(outcome.paired_preference, has_aux=True)(value, right)
    miss = 1 / (1 + np.e)
    np.testing.assert_allclose(loss, (-np.log(1 - miss) + np.log(2)) / 2, rtol=1e-5)
    np.testing.assert_allclose(slope, [[-miss / 2, miss / 2, 1 / 4, -1 / 4, 0]], rtol=1e-4)
    assert pairs == 2


@pytest.mark.thorough
def test_turns_are_compared_with_all_others():
    reward, there = np.float32([[[1, 2], [3, 9]]]), np.array([[[True, True], [True, False]]])
    np.testing.assert_allclose(outcome.step_advantage(reward, there), [[[-1.5, 0], [1.5, 0]]])


def test_the_answer_that_may_win_most_is_compared():
    """One own answer is known (0), one is open (0 +- 2 x 1), the first policy's are 0: sigmoid(2) - 1/2."""
    zero = np.zeros((1, 2), np.float32)
    own, other = Guess(zero, np.float32([[0, 1]]), zero), Guess(zero, zero, zero)
    worth, best = borda_acquisition(own, other, 2.0, 1.0)
    np.testing.assert_allclose(worth, [1 / (1 + np.exp(-2)) - 0.5], rtol=1e-5)
    assert best.tolist() == [1]
    # What is not known of the first policy's answers counts for the other side
    doubt = Guess(zero, np.float32([[1, 1]]), zero)
    np.testing.assert_allclose(borda_acquisition(other, doubt, 2.0, 1.0)[0], [np.tanh(1.0)], rtol=1e-5)
