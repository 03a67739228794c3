"""Advantages of groups, credit of tokens and rewards by length: tables worked by hand, and sums over all sets."""

from __future__ import annotations

import numpy as np
import pytest

from forage.core.types import ForageError
from forage.ops.tokens import advantages
from forage_papers.ops.tokens import credit, lengths

REWARD = np.float32([[3, 1], [0, 0]])


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


def test_entropy_never_turns_a_sign():
    """Bonuses are min(0.4 H, 1/2): 0.2 and 1/2; tokens that the policy did not write get 0."""
    entropy = np.float32([[0.5, 10, np.inf]] * 2)
    mask = np.array([[True, True, False]] * 2)
    found = credit.entropy_shaped(np.float32([[1], [-1]]), entropy, mask)
    close(found, [[1.2, 1.5, 0], [-0.8, -0.5, 0]])


def test_branches_make_values_of_steps():
    """V = 1/2, 1, 0: the first step helps, the second loses all of it, the third regains it."""
    branches = np.float32([[1, 0], [1, 1], [0, 0]])
    found = credit.branch_advantage(branches, np.float32([0, 0, 1]))
    close(found, [0.5, -1, 1])  # in all the return, 1, less the value of the prompt, 1/2
    close(credit.of_tokens(found, np.array([0, 0, 1, -1, 2])), [0.5, 0.5, -1, 0, 1])


def test_trajectories_leave_one_out():
    """Returns 3, 1, 2 less the others' means, 3/2, 5/2, 2; the second token is the environment's, with a reward."""
    reward = np.float32([[[0, 3], [0, 1], [1, 1]]])
    mask = np.array([[[True, False]] * 3])
    close(credit.trajectory_advantage(reward, mask), [[[1.5, 0], [-1.5, 0], [0, 0]]])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: advantages.group_advantage("gpro", REWARD), "no advantage of groups 'gpro'"),
        (lambda: advantages.grpo(REWARD[:, :1]), "at least 2 answers in each group"),
        (lambda: advantages.reinforce_plus_plus(REWARD[:1, :1]), "at least 2 answers in a batch"),
        (lambda: advantages.pass_at_k(REWARD, k=3), "k is 3"),
        (lambda: advantages.max_at_k(REWARD, k=0), "k is 0"),
        (lambda: advantages.group_weight(REWARD, "lose"), "no rule for groups of one reward 'lose'"),
        (lambda: credit.entropy_shaped(REWARD, REWARD, REWARD > 0, share=1.0), "must be above 1"),
        (lambda: lengths.length_gate(REWARD > 0, REWARD, 1.5), "from 0 to 1"),
    ],
)
def test_bad_input_is_one_sentence(call, said):
    with pytest.raises(ForageError, match=said):
        call()
