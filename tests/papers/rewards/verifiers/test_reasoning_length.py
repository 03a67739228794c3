"""Rewards by length of the episodes of `test_verifiers`: 2, 5, 1 and 5 of 8 tokens, the first right."""

import numpy as np
import pytest
from check_helpers import check
from test_verifiers import SPACE, SPEC, pay, rollout_of

from forage.core.spaces import Tokens
from forage.core.types import ForageError, Spec
from forage_papers.rewards.verifiers.reasoning_length import CosineLength, Searching, search_reward


@pytest.mark.thorough
def test_short_right_answers_and_long_wrong_ones_are_paid_more():
    reward, _, _ = pay(CosineLength(margin=1), rollout_of())
    part = (1 + np.cos(np.pi * np.array([2, 5, 1, 5]) / 8)) / 2
    expected = [1 + part[0], *(-10 * part[1:])]
    np.testing.assert_allclose(reward, [[expected[0], 0, expected[2], 0], [0, expected[1], 0, expected[3]]], rtol=1e-5)
    late, _, _ = pay(CosineLength(margin=3, exceeded=-4.0), rollout_of())
    assert late[1, 1] == late[1, 3] == -4 and late[0, 0] == reward[0, 0]
    again = rollout_of()
    again.action[:, 3] = [[5, 6, 0, 0], [5, 6, 5, 0]]  # of the pairs 56 65 56 65 two had come before
    priced, _, _ = pay(CosineLength(margin=1, repetition=2.0, ngram=2), again)
    np.testing.assert_allclose(priced[1, 3], expected[3] - 1, rtol=1e-5)


def test_searching_is_paid_beside_the_truth():
    """Right, wrong and unread answers of 2, 5 and 1 tokens: 1 - 1/2, -1/5, -1/2 - 1."""
    told = np.float32([1, 0, 1]), np.array([True, True, False]), np.array([2, 5, 1])
    np.testing.assert_allclose(search_reward(*told, 1.0, -0.5), [0.5, -0.2, -1.5], rtol=1e-6)


@pytest.mark.thorough
def test_searching_stands_where_the_episode_ends():
    reward, _, metrics = pay(Searching(price=1.0), rollout_of())
    np.testing.assert_allclose(reward, [[0.5, 0, -1.5, 0], [0, -0.2, 0, -0.2]], rtol=1e-6)
    assert metrics["truth"] == 0.25


def test_bad_settings_are_one_sentence():
    with pytest.raises(ForageError, match="text:game does not return format and truth"):
        check(Searching(), Spec("text:game", SPACE, Tokens(4, 30, end=29)))
    with pytest.raises(ForageError, match="right_last of CosineLength is at most right_first"):
        check(CosineLength(right_last=3.0), SPEC)
