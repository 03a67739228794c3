"""Corrections of single papers by hand: values, gradients, and none through the tokens of other writers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_token_losses import ALL, ZERO, close, with_slope

from forage.core.types import ForageError
from forage.ops.tokens import losses, masks
from forage_papers.ops.tokens import off_policy


@pytest.mark.parametrize(
    ("bad", "target", "expected"),
    [
        (-1.6, 1.0, (0.6, 1.2, 1.25)),  # 1.2 / (0.6 x 1.6): balanced as it is
        (-2.5, 0.88, (0.8, 1.8, 0.9)),  # 1.2 / 1.5 = 0.8, then floor 0.8: c / 2, and 1.7 / 2 is too little
        (-2.5, 9.0, (0.8, 2.0, 1.0)),  # both at their last values
    ],
)
def test_bounds_move_until_the_signs_balance(bad, target, expected):
    """One good token with ratio 3, one bad one with ratio 1/2."""
    now = np.log(np.float32([[3, 0.5]]))
    advantage = np.float32([[1, bad]])
    found = off_policy.moving_bounds(
        now, 0 * now, advantage, ALL, target=target, floor=(0.6, 0.8, 0.1), ceiling=(1.2, 2.0, 0.1)
    )
    close(found, expected)


def test_no_gradient_flows_through_moving_bounds():
    def loss(now):
        floor, ceiling, _ = off_policy.moving_bounds(now, 0 * now, np.float32([[1, -1]]), ALL, target=9.0)
        return losses.clipped_loss(now, 0 * now, np.float32([[1, -1]]), ALL, low=1 - floor, high=ceiling - 1).sum()

    close(jax.grad(loss)(jnp.log(jnp.float32([[1.9, 0.9]]))), [[-1.9, 0.9]])  # within 0.8 and 2


def test_external_answers():
    """pi = 1/4, old = 1/2: the ratio is 2 x 1/4 / (1/2 + 3/4) = 0.4, the focus sqrt(3/4)."""
    now, old = np.log(np.float32([[0.25]])), np.log(np.float32([[0.5]]))
    rest = old, np.float32([[2]]), np.ones((1, 1), bool)
    expected = -0.4 * np.sqrt(0.75) * 2
    loss, slope = with_slope(lambda x: off_policy.external(x, *rest), now)
    close(loss, [[expected]])
    close(slope, [[expected]])  # the ratio's own, no more


def test_taught_answers():
    """pi = 0.1 and 0.4 at a shape of 0.1: 1/2 and 4/5, with slopes of pi shape / (pi + shape)^2 by log pi."""
    rest = np.float32([[2]]), np.ones((1, 2), bool)
    loss, slope = with_slope(lambda x: off_policy.teacher_loss(x, *rest), np.log(np.float32([[0.1, 0.4]])))
    close(loss, [[-1.0, -1.6]])
    close(slope, [[-0.5, -0.32]])


def test_the_proxy_drops_noise():
    found = off_policy.proxy(np.log(np.float32([0.7, 0.29, 0.01])))
    close(np.exp(found), [0.7 / 0.99, 0.29 / 0.99, 0])


def test_improbable_tokens_are_shielded():
    """Of four bad tokens the two least are looked at; the proxy gives only the first more than pi does.

    Its loss is 1 + (1.5 - 1 - log 1.5), and its slope 1 - (1.5 - 1): half as strong a push down.
    """
    now = np.log(np.float32([[0.1, 0.2, 0.5, 0.6]]))
    proxy = np.log(np.float32([[0.15, 0.1, 0.9, 0.9]]))
    rest = now, np.float32([[-1]]), np.ones((1, 4), bool), proxy

    loss, slope = with_slope(lambda x: off_policy.low_probability_loss(x, *rest, share=0.5), now)
    close(loss, [[1.5 - np.log(1.5), 1, 1, 1]])
    close(slope, [[0.5, 1, 1, 1]])


def test_nothing_flows_through_what_the_policy_did_not_write():
    """Infinite log-probabilities of other writers change no mean of losses, and have gradient zero."""
    mask, advantage = np.array([[True, False]]), np.float32([[1.5]])

    def losses_of(now, old):
        yield off_policy.external(now, old, advantage, mask)
        yield off_policy.teacher_loss(now, advantage, mask)
        yield off_policy.low_probability_loss(now, old, -advantage, mask, old, share=1.0)

    def means(other):
        old = np.float32([[-2, other]])
        return with_slope(
            lambda now: jnp.stack([masks.token_mean(loss, mask) for loss in losses_of(now, old)]),
            np.float32([[-1, other]]),
        )

    (clean, kept), (found, slope) = means(-3), means(-np.inf)
    close(found, clean)
    close(slope, kept)
    assert slope[0, 1] == 0 and slope[0, 0] != 0


def test_bounds_must_rise():
    with pytest.raises(ForageError, match="it must rise"):
        off_policy.moving_bounds(ZERO, ZERO, ZERO, ALL, floor=(1.0, 0.5, 0.1))
