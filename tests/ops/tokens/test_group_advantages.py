"""Advantages of groups, credit of tokens and rewards by length: tables worked by hand, and sums over all sets."""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.ops.tokens import advantages, lengths

REWARD = np.float32([[3, 1], [0, 0]])
ROOT = np.sqrt(2)


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "numbers", "expected"),
    [
        ("none", {}, REWARD),
        ("grpo", {"epsilon": 1e-9}, [[1 / ROOT, -1 / ROOT], [0, 0]]),  # deviation of 3 and 1: sqrt(1 + 1)
        ("dr-grpo", {}, [[1, -1], [0, 0]]),
        ("rloo", {}, [[2, -2], [0, 0]]),  # 3 - 1 and 1 - 3
        ("remax", {"baseline": np.float32([2, 1])}, [[1, -1], [-1, -1]]),
        # batch mean 1, deviation sqrt((4 + 0 + 1 + 1) / 3) = sqrt(2)
        ("reinforce++", {"epsilon": 0.0}, [[ROOT, 0], [-1 / ROOT, -1 / ROOT]]),
        # of 1, -1, 0, 0: deviation sqrt(2 / 3)
        ("reinforce++-baseline", {"epsilon": 0.0}, [[np.sqrt(1.5), -np.sqrt(1.5)], [0, 0]]),
        ("lite-ppo", {"epsilon": 0.0}, [[1 / ROOT, -1 / ROOT], [0, 0]]),
        ("max-rl", {}, [[0.5, -0.5], [0, 0]]),  # by the mean of 2; never solved teaches nothing
        ("pass@k", {"k": 1, "epsilon": 0.0}, [[0, 0], [0, 0]]),  # all right, and none
        ("max@k", {"k": 2}, [[6, 6], [0, 0]]),  # n / C(n, k) = 2 times the best of the one set of both
    ],
)
def test_table(name, numbers, expected):
    close(jax.jit(partial(advantages.group_advantage, name, **numbers))(REWARD), expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none", [[0, 3, 1], [0, 0, 0]]),
        ("grpo", [[0, 1 / ROOT, -1 / ROOT], [0, 0, 0]]),  # of 3 and 1 alone
        ("dr-grpo", [[0, 1, -1], [0, 0, 0]]),
        ("rloo", [[0, 2, -2], [0, 0, 0]]),
        ("reinforce++", [[0, 1 / ROOT, -1 / ROOT], [0, 0, 0]]),
        ("reinforce++-baseline", [[0, 1 / ROOT, -1 / ROOT], [0, 0, 0]]),
        ("lite-ppo", [[0, 1 / ROOT, -1 / ROOT], [0, 0, 0]]),
        ("max-rl", [[0, 0.5, -0.5], [0, 0, 0]]),
        ("max@k", [[0, 0, 0], [0, 0, 0]]),  # of whole groups
    ],
)
def test_lost_answers_count_nowhere(name, expected):
    """The first answer of one group is lost, and two of the other, so that it has no pair to compare."""
    reward, there = np.float32([[np.nan, 3, 1], [5, 0, 9]]), np.array([[0, 1, 1], [1, 0, 0]], bool)
    numbers = {"epsilon": 1e-9} if name in ("grpo", "reinforce++", "reinforce++-baseline", "lite-ppo") else {}
    numbers |= {"k": 2} if name == "max@k" else {}
    found, weight = advantages.advantage_of_those_there(name, reward, there, **numbers)
    close(found, expected)
    close(weight, [[0, 1, 1], [0, 0, 0]] if name != "max@k" else np.zeros((2, 3)))


def best_sets(count, k):
    return list(itertools.combinations(range(count), k))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_pass_at_k_is_the_mean_over_all_sets(k):
    """Reward each set of k by its best, normalise over all sets, and average over the sets of each answer."""
    reward = np.float32([[right < c for right in range(5)] for c in range(6)])
    found = np.asarray(jax.jit(partial(advantages.pass_at_k, k=k, epsilon=0.0))(reward))
    for row, got in zip(reward, found, strict=True):
        sets = best_sets(5, k)
        best = np.array([max(row[list(s)]) for s in sets])
        deviation = best.std()
        worth = (best - best.mean()) / deviation if deviation > 0 else 0 * best
        close(got, [np.mean([w for w, s in zip(worth, sets, strict=True) if i in s]) for i in range(5)])


@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_max_at_k_is_the_sum_over_all_sets(k, leave_out):
    reward = np.float32([[0.3, -1.0, 2.0, 0.3, 0.7], [1, 1, 0, 0, 0]])  # with ties, unsorted
    found = np.asarray(jax.jit(partial(advantages.max_at_k, k=k, leave_out=leave_out))(reward))
    sets = best_sets(5, k)
    for row, got in zip(reward, found, strict=True):
        total = np.zeros(5)
        for s in sets:
            for i in s:
                others = [row[j] for j in s if j != i]
                total[i] += max(row[list(s)]) - (max(others) if leave_out and others else 0.0)
        close(got, 5 / len(sets) * total)


@pytest.mark.parametrize("leave_out", [False, True])
def test_max_at_k_has_the_gradient_of_the_best_of_k(leave_out):
    """Over all 27 ways of drawing three answers out of three, the mean gradient is that of E[max of two]."""
    logits, worth = np.array([0.2, -0.5, 0.9]), np.array([1.0, 0.0, 0.4])
    p = np.exp(logits) / np.exp(logits).sum()
    ways = np.array(list(itertools.product(range(3), repeat=3)))
    found = np.asarray(jax.jit(partial(advantages.max_at_k, k=2, leave_out=leave_out))(np.float32(worth[ways])))
    score = np.eye(3)[ways] - p  # grad log pi of each answer drawn
    mean = np.einsum("w,wa,wal->l", p[ways].prod(1), found, score) / 3

    pairs = np.maximum(worth[:, None], worth[None])
    in_p = 2 * pairs @ p  # the derivative of p pairs p in p
    close(mean, p * (in_p - p @ in_p))


def test_groups_of_one_reward_weigh_nothing():
    reward = np.float32([[1, 1], [0, 1], [0, 0]])
    close(advantages.group_weight(reward), [[0, 0], [1, 1], [0, 0]])
    close(advantages.group_weight(reward, "keep"), np.ones((3, 2)))


def test_rewards_by_length():
    with pytest.raises(ForageError, match="at most 4"):
        lengths.overlong(np.array([1]), 4, 5)
    close(lengths.overlong(np.array([3, 6, 8, 10, 12]), 10, 4), [0, 0, -0.5, -1, -1])


def test_no_gradient_flows_into_the_reward():
    assert not jax.grad(lambda r: jnp.sum(advantages.group_advantage("dr-grpo", r) ** 2))(jnp.asarray(REWARD)).any()
