"""Losses that couple the answers of a group, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage_papers.ops.tokens.coupling import alignment_weights, balance_classes, label_loss

ALL = np.ones((1, 2), bool)


def test_right_answers_are_foretold_by_the_log_ratio():
    """Scores log 3 and 0 leave log 3 and -log 3: each label has the probability 3/4. Either slope is (1 - 3/4)."""
    right = np.array([[True, False]])
    value, slope = jax.value_and_grad(lambda s: label_loss(s, right, ALL))(jnp.log(jnp.float32([[3, 1]])))
    np.testing.assert_allclose(value, np.log(4 / 3), rtol=1e-5)
    np.testing.assert_allclose(slope, [[-0.25, 0.25]], rtol=1e-5)


@pytest.mark.thorough
def test_kinds_count_alike_and_lost_answers_not_at_all():
    right = np.array([[True, True, True, False], [True] * 4, [True, False, False, True]])
    there = np.array([[True] * 4, [True] * 4, [True, True, True, False]])
    found = balance_classes(jnp.asarray(right), jnp.asarray(there))
    np.testing.assert_allclose(found, [[2 / 3] * 3 + [2], [1] * 4, [1.5, 0.75, 0.75, 0]], rtol=1e-6)
    lost = label_loss(jnp.float32([[2.0, 1.0, 9.0]]), right[:1, :3], np.array([[True, True, False]]), 0.5)
    np.testing.assert_allclose(lost, (np.log1p(np.exp(-0.5)) + np.log1p(np.exp(0.5))) / 2, rtol=1e-5)


def test_the_reference_is_one_of_the_group():
    """Rewards 1, 0 and 1 of the reference: mean 2/3, deviation sqrt(2)/3, A = 1/sqrt 2 (1, -2, 1)."""
    own, other = alignment_weights(
        jnp.float32([[1, 0], [1, 0]]), jnp.ones(2), np.array([True, False]), 0.5, 0.6, epsilon=0.0
    )
    root = np.sqrt(0.5)
    np.testing.assert_allclose(own, [[1.6 * root / 2, -1.6 * root], [0.5, -0.5]], rtol=1e-5)
    np.testing.assert_allclose(other, [0.5 * root + 0.6 * root / 2, 0], rtol=1e-5)
