"""Estimators of the divergence: their values and their gradients against sums over all tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.ops.tokens import divergence

LOGITS = jnp.asarray([0.3, -0.8, 1.1])
REFERENCE = jax.nn.log_softmax(jnp.asarray([-0.5, 0.4, 0.2]))
MASK = np.ones((3, 1), bool)  # one sequence for each token there is


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


def reverse(logits):
    log_p = jax.nn.log_softmax(logits)
    return jnp.sum(jnp.exp(log_p) * (log_p - REFERENCE))


def forward(logits):
    return jnp.sum(jnp.exp(REFERENCE) * (REFERENCE - jax.nn.log_softmax(logits)))


def expectation(loss, drawn=LOGITS):
    """Return the mean over tokens that these logits draw, and the gradient of automatic differentiation."""
    share = jax.nn.softmax(drawn)
    return jax.jit(jax.value_and_grad(lambda logits: jnp.sum(share * loss(jax.nn.log_softmax(logits)[:, None])[:, 0])))


REVERSE, FORWARD = jax.grad(reverse)(LOGITS), jax.grad(forward)(LOGITS)


def test_by_hand():
    """x = log 2: k1 = 0.693147, k2 = 0.240227, k3 = 1/2 - 1 + 0.693147."""
    for name, value in (("k1", 0.693147), ("k2", 0.240227), ("k3", 0.193147)):
        close(divergence.kl_estimate(np.log(np.float32([2.0])), name), [value])


@pytest.mark.parametrize(("name", "gradient"), [("k1", 0 * REVERSE), ("k2", REVERSE), ("k3", FORWARD)])
def test_estimators_have_the_gradients_that_the_page_says(name, gradient):
    value, found = expectation(lambda now: divergence.kl_estimate(now - REFERENCE[:, None], name))(LOGITS)
    close(found, gradient)
    if name != "k1":  # which is refused as a loss
        _, loss = expectation(lambda now: divergence.kl_loss(now, REFERENCE[:, None], MASK, name))(LOGITS)
        close(loss, gradient)
    if name != "k2":  # which is biased
        close(value, reverse(LOGITS))


@pytest.mark.parametrize("name", ["k1", "k3"])
def test_the_reverse_gradient_is_that_of_the_divergence(name):
    value, found = expectation(lambda now: divergence.kl_loss(now, REFERENCE[:, None], MASK, name, "reverse"))(LOGITS)
    close(found, REVERSE)
    close(value, reverse(LOGITS))


@pytest.mark.parametrize("name", ["k1", "k3"])
def test_weighted_estimators_are_right_also_of_older_tokens(name):
    older = jnp.asarray([0.9, 0.1, -0.4])
    old = jax.nn.log_softmax(older)[:, None]
    value, found = expectation(
        lambda now: divergence.kl_loss(now, REFERENCE[:, None], MASK, name, "weighted", old), older
    )(LOGITS)
    close(found, REVERSE)
    close(value, reverse(LOGITS))


def test_in_the_reward_k1_is_right():
    """The score function of the reward -k1 climbs down the divergence."""
    log_p = jax.nn.log_softmax(LOGITS)[:, None]
    reward = divergence.kl_in_reward(jnp.zeros(3), log_p, REFERENCE[:, None], MASK, 1.0)
    _, found = expectation(lambda now: -reward[:, None] * now)(LOGITS)
    close(found, REVERSE)
    assert not jax.grad(lambda x: divergence.kl_in_reward(jnp.zeros(3), x, 0 * x, MASK).sum())(log_p).any()


def test_each_estimator_has_its_own_gradient_by_hand():
    """x = 1/2, -1 and 1/5 of one answer, 3/5 of another: k2 has the slopes x, and k3 has 1 - exp(-x)."""
    now = np.float32([[-1, -2, -0.5], [-0.3, -1, -1]])
    reference, mask = np.float32([[-1.5, -1, -0.7], [-0.9, -0.2, -2]]), np.array([[True] * 3, [True, False, False]])

    def slopes(name):
        return jax.grad(lambda x: divergence.kl_loss(x, reference, mask, name).sum())(now)

    close(slopes("k2"), [[0.5, -1, 0.2], [0.6, 0, 0]])
    close(slopes("k3"), [[0.393469, -1.718282, 0.181269], [0.451188, 0, 0]])


def test_what_is_masked_has_no_divergence():
    mask = np.array([[True, False]])

    def loss(now):
        return divergence.kl_loss(now, np.float32([[-1, np.nan]]), mask).sum()

    value, found = jax.value_and_grad(loss)(np.float32([[-1 + np.log(2), -np.inf]]))
    close(value, 0.193147)
    close(found, [[0.5, 0]])  # 1 - exp(-log 2)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: divergence.kl_estimate(np.zeros(1), "k4"),
            "no estimator of the divergence 'k4'; there are k1, k2, k3",
        ),
        (lambda: divergence.kl_loss(*np.zeros((2, 3, 1)), MASK, gradient="none"), "no gradient of the divergence"),
        (lambda: divergence.kl_loss(*np.zeros((2, 3, 1)), MASK, gradient="weighted"), "needs the old log-prob"),
        (lambda: divergence.kl_loss(*np.zeros((2, 3, 1)), MASK, "k1"), "only adds noise.*take k2 or k3"),
    ],
)
def test_bad_input_is_one_sentence(call, said):
    with pytest.raises(ForageError, match=said):
        call()
