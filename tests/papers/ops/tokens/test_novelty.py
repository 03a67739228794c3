"""Diversity of answers: BLEU by hand, and bonuses of directions that few answers take."""

import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage_papers.ops.tokens.novelty import bleu, leverage, textual_diversity


def pad(*answers, length=6):
    tokens = np.zeros((len(answers), length), np.int32)
    for row, answer in enumerate(answers):
        tokens[row, : len(answer)] = answer
    return jnp.array(tokens), jnp.array(tokens > 0)


def test_bleu_by_hand():
    score = np.asarray(bleu(*pad([1, 2, 3], [1, 2, 4], [1, 1, 1, 2]), (0.5, 0.5)))
    np.testing.assert_allclose(score[0, 1], np.sqrt(2 / 3 * 1 / 2), rtol=1e-5)  # p_1 = 2/3, p_2 = 1/2
    # Of [1, 1, 1, 2] in [1, 2, 3]: 1 counts once, 2 once; the pair (1, 2) once of three
    np.testing.assert_allclose(score[2, 0], np.sqrt(2 / 4 * 1 / 3), rtol=1e-5)
    # The other way round: 1 and 2 of three tokens, one pair of two, and a shorter answer
    np.testing.assert_allclose(score[0, 2], np.exp(1 - 4 / 3) * np.sqrt(2 / 3 * 1 / 2), rtol=1e-5)


@pytest.mark.thorough
def test_equal_answers_are_alike_however_short_and_padding_changes_nothing():
    score = np.asarray(bleu(*pad([5], [5], [7, 8, 9, 7, 8], [7, 8, 9, 7, 8])))
    np.testing.assert_allclose([score[0, 1], score[2, 3]], 1, rtol=1e-5)
    assert score[0, 2] == score[2, 0] == 0
    tokens, there = pad([1, 2, 3, 4], [2, 3, 4])
    other = jnp.where(there, tokens, 9)
    np.testing.assert_array_equal(bleu(tokens, there), bleu(other, there))


def test_diversity_is_of_the_others():
    found = textual_diversity(*pad([1, 2], [1, 2], [3, 4]))
    np.testing.assert_allclose(found, [0.5, 0.5, 1.0], atol=1e-6)


@pytest.mark.thorough
def test_the_answer_apart_has_the_largest_bonus():
    # Two answers: h = 1 and -1, V = ridge + 2
    np.testing.assert_allclose(leverage(jnp.array([[3.0], [1.0]]), 0.5), [0.4, 0.4], rtol=1e-5)
    features = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    centred = features - features.mean(0)
    by_inverse = np.einsum("if,fg,ig->i", centred, np.linalg.inv(0.1 * np.eye(3) + centred.T @ centred), centred)
    np.testing.assert_allclose(leverage(jnp.array(features), 0.1), by_inverse, rtol=1e-4)
    apart = leverage(jnp.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [4.0, 1.0]]), 0.01)
    assert apart[3] > 2 * apart[0]


def test_a_weight_of_nothing_is_refused():
    with pytest.raises(ForageError, match="above 0"):
        bleu(*pad([1], [2]), (0.5, 0.0))
