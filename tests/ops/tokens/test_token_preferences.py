"""Losses of preferences and of right answers, by hand."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.ops.tokens import preferences, supervised

PAIR = np.float32([[-1], [-2], [-1.5], [-1.5]])  # chosen, rejected, and what the reference says: h = 1
MASK = np.ones((1, 1), bool)


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "arrays", "numbers", "expected"),
    [
        ("dpo", PAIR, {}, 0.644397),  # -log sigmoid(0.1)
        ("dpo", PAIR, {"smoothing": 0.1}, 0.9 * 0.644397 + 0.1 * 0.744397),
        ("robust-dpo", PAIR, {"smoothing": 0.1}, (0.9 * 0.644397 - 0.1 * 0.744397) / 0.8),
        ("ipo", PAIR, {}, 16),  # (1 - 5)^2
        ("hinge", PAIR, {}, 0.9),
        ("simpo", PAIR[:2], {"beta": 2.0, "margin": 0.5}, 0.201413),  # -log sigmoid(1.5)
        ("cpo", [*PAIR[:2], np.array(0.5, np.float32)], {"beta": 1.0}, 0.813262),  # -log sigmoid(1) + 0.5
        ("xpo", [*PAIR, PAIR[1]], {"optimism": 0.01}, 0.624397),  # dpo's less 0.01 x 2
    ],
)
def test_table(name, arrays, numbers, expected):
    close(jax.jit(partial(preferences.preference_loss, name, **numbers))(*arrays), expected)


def test_wanted_and_unwanted_answers():
    """x = 1/2; with baseline 1/2 a wanted one is 1/2, and with 0 an unwanted one sigmoid(0.05) = 0.512497, twice."""
    x = np.float32([-1]), np.float32([-1.5])
    close(preferences.kto(*x, np.array([True]), np.array(0.5, np.float32)), [0.5])
    close(preferences.kto(*x, np.array([False]), np.array(0, np.float32), unwanted_weight=2.0), [2 * 0.512497])
    close(preferences.kto_baseline(np.float32([-1, -2]), np.float32([-2, -2])), 0.5)
    close(preferences.kto_baseline(np.float32([-3, -2]), np.float32([-2, -2])), 0)


def test_the_reference_does_not_learn():
    slope = jax.grad(lambda *x: preferences.preference_loss("dpo", *x), argnums=(0, 1, 2, 3))(*PAIR)
    close(np.ravel(slope), [-0.1 * 0.475021, 0.1 * 0.475021, 0, 0])  # -beta sigmoid(-beta h)


def test_fine_tuning_is_cross_entropy():
    """pi = 1/4, 3/4: -log(3/4); the second token does not count."""
    logits = np.log(np.float32([[[1, 3], [1, 1]]]))
    close(supervised.cross_entropy(logits, np.array([[1, 0]]), np.array([[True, False]])), [[0.287682, 0]])


def test_selections():
    reward = np.float32([[0.2, 0.9, 0.9], [0, 0, 0]])
    close(supervised.selection(reward), [[0, 1, 0], [1, 0, 0]])
    close(supervised.selection(reward, "above"), [[0, 0.5, 0.5], [0, 0, 0]])


def test_directions_of_distillation():
    """Student 1/2, 1/2, teacher 3/4, 1/4, their even mixture 5/8, 3/8."""
    student, teacher = np.zeros((1, 1, 2), np.float32), np.log(np.float32([[[3, 1]]]))
    loss = jax.jit(supervised.distillation, static_argnums=3)
    close(loss(student, teacher, MASK, "reverse"), [[0.5 * np.log(4 / 3)]])
    close(loss(student, teacher, MASK, "forward"), [[0.75 * np.log(1.5) - 0.25 * np.log(2)]])
    mixed = 0.5 * (0.75 * np.log(1.2) + 0.25 * np.log(2 / 3)) + 0.5 * (0.5 * np.log(0.8) + 0.5 * np.log(4 / 3))
    close(loss(student, teacher, MASK, "mixed"), [[mixed]])
    assert not jax.grad(lambda t: loss(student, t, MASK, "reverse").sum())(teacher).any()


def test_a_token_that_the_teacher_never_says_adds_nothing_forward():
    student, teacher = np.zeros((1, 1, 2), np.float32), np.float32([[[0, -np.inf]]])
    loss = jax.jit(jax.value_and_grad(lambda s: supervised.distillation(s, teacher, MASK, "forward").sum()))
    value, slope = loss(student)
    close(value, np.log(2))
    close(slope, [[[-0.5, 0.5]]])


def test_sampled_distillation_pays_for_what_the_teacher_prefers():
    found = supervised.distillation_reward(np.float32([[-1, -1]]), np.float32([[-0.5, -3]]), np.array([[True, False]]))
    close(found, [[0.5, 0]])


def test_the_backup_of_random_policies_is_a_mean():
    found = supervised.mean_backup(
        np.float32([0, 1]), np.float32([[1, 0, 0, 1], [9, 9, 9, 9]]), np.array([False, True]), 0.5
    )
    close(found, [0.25, 1])


def test_rover_by_hand():
    """From 1/2, 1/2 to 3/4, 1/4 at both tokens: Q = log 1.5 = 0.405465, the mean over the vocabulary is -0.143841.

    With A = 1 the targets are 0.856159 and, at the end, 1. The gradient in the logits is 2 (Q - target) (1 - pi).
    """
    logits = np.log(np.float32([[[3, 1]] * 2]))
    token, advantage, mask = np.zeros((1, 2), int), np.float32([[1]]), np.ones((1, 2), bool)

    def total(x):
        loss = supervised.rover(x, np.zeros((1, 2, 2), np.float32), token, advantage, mask)
        return loss.sum(), loss

    (_, loss), slope = jax.jit(jax.value_and_grad(total, has_aux=True))(logits)
    close(loss, [[0.203125, 0.353472]])
    close(slope[..., 0], 2 * np.array([[0.405465 - 0.856159, 0.405465 - 1]]) / 4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: preferences.preference_loss("rlhf", *PAIR), "no loss of preferences 'rlhf'; there are dpo"),
        (lambda: preferences.robust_dpo(*PAIR, smoothing=0.5), "from 0 to below 0.5"),
        (lambda: supervised.selection(PAIR, "worst"), "no selection of answers 'worst'"),
        (lambda: supervised.distillation(*np.zeros((2, 1, 1, 2)), MASK, "up"), "no direction of distillation 'up'"),
        (lambda: supervised.distillation(*np.zeros((2, 1, 1, 2)), MASK, "mixed", 1.0), "between 0 and 1"),
    ],
)
def test_bad_input_is_one_sentence(call, said):
    with pytest.raises(ForageError, match=said):
        call()
