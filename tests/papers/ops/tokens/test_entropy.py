"""Entropies of tokens and the weights made of them, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage_papers.ops.tokens.entropy import certainty, nucleus_entropy, peaks, sequence_weights


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.thorough
def test_the_entropy_within_the_nucleus():
    """Of 0.4, 0.3, 0.2, 0.1 the first two have less than 0.8 together: 4/7 and 3/7. Of 0.9, 0.1 no token has."""
    p = np.float32([0.4, 0.3, 0.2, 0.1])
    inside = np.array([4 / 7, 3 / 7])
    close(nucleus_entropy(jnp.log(p)), -(inside * np.log(inside)).sum())
    close(nucleus_entropy(jnp.log(p[::-1]), 1.0), -(p * np.log(p)).sum())
    close(nucleus_entropy(jnp.log(jnp.float32([0.9, 0.1]))), 0)
    slope = jax.grad(lambda z: nucleus_entropy(jax.nn.log_softmax(z)))(jnp.log(p))
    # dH/dz_i = -q_i (log q_i + H) within the nucleus, and nothing for the tokens outside of it
    h = -(inside * np.log(inside)).sum()
    close(slope, [*(-inside * (np.log(inside) + h)), 0, 0])


@pytest.mark.thorough
def test_peaks_are_above_a_quantile_of_their_own_answer():
    entropy = np.float32([[1, 2, 3, 4, 5], [9, 1, 0, 0, 0]])
    mask = np.array([[True] * 5, [True, True, False, False, False]])
    assert peaks(entropy, mask, 0.5).tolist() == [[False, False, False, True, True], [True] + [False] * 4]
    assert not peaks(0 * entropy, mask, 0.5).any()


def test_answers_count_by_advantage_and_entropy():
    """Scores (1 + 0.5 x 2) / 2 = 1 and (0 + 0.5 x 4) / 2 = 1 are equal; the third answer is lost."""
    given = np.float32([[1, 0, 5]]), np.float32([[2, 4, 0]])
    there = np.array([[True, True, False]])
    close(sequence_weights(*given, 0.5, 2.0, there), [[0.5, 0.5, 0]])
    e = np.exp(0.5)
    close(sequence_weights(*given, 0.0, 2.0, there), [[e / (1 + e), 1 / (1 + e), 0]])
    assert not np.isnan(sequence_weights(*given, 0.5, 2.0, there & False)).any()


def test_the_penalty_is_relaxed_where_the_reference_is_unsure():
    """Greatest of four 1 and 1/4: squared 1 and 1/16; negentropy 1 and 0; with intercept -1, 2 c^2 - 1."""
    reference = np.log(np.float32([[1, 1e-30, 1e-30, 1e-30], [0.25] * 4]))
    close(certainty(reference, 2.0), [1, 1 / 16])
    close(certainty(reference, 1.0, "negentropy"), [1, 0])
    close(certainty(reference, 1.0, "negentropy", size=16), [1, 0.5])
    close(certainty(reference, 2.0, intercept=-1.0), [1, -0.875])
    with pytest.raises(ForageError, match="must not be positive"):
        certainty(np.zeros((1, 2)), 1.0, intercept=0.5)
    with pytest.raises(ForageError, match="no measure of certainty 'entropy'"):
        certainty(np.zeros((1, 2)), 1.0, "entropy")
