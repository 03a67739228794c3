"""What critics are asked together: least values of some, histograms, and what is dropped; by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from forage.core import prng
from forage.nn.critics import ActionValue, Bins, each_value, least_of_some, several, value_error
from forage.nn.layers import dropped
from forage.nn.networks import Style

BOX = spaces.Box(-1.0, 1.0, (3,))


def test_the_least_of_two_of_three_is_one_of_three_numbers():
    values = jnp.array([[1.0, 6.0], [2.0, 5.0], [3.0, 4.0]])
    draws = jax.vmap(lambda key: least_of_some(values, 2, key))(jax.random.split(prng.key(0), 300))
    pairs, times = np.unique(np.asarray(draws), axis=0, return_counts=True)
    # Critics 0 and 1, 0 and 2, 1 and 2: the same ones for all of a batch, each pair as often as another.
    assert pairs.tolist() == [[1.0, 4.0], [1.0, 5.0], [2.0, 4.0]]
    assert times.min() > 70


def test_the_least_of_all_needs_no_key():
    values = jnp.array([[1.0, 6.0], [2.0, 5.0]])
    assert least_of_some(values).tolist() == [1.0, 5.0]
    assert least_of_some(values, 2).tolist() == [1.0, 5.0]


def test_a_histogram_tells_a_value_by_its_mean():
    bins = Bins(20, -2.0, 2.0)
    shares = bins.shares(jnp.array([0.3, -1.0, 5.0]))
    np.testing.assert_allclose(shares.sum(-1), 1.0, atol=1e-6)
    values = bins.value(jnp.log(shares + 1e-12))
    np.testing.assert_allclose(values[:2], [0.3, -1.0], atol=1e-3)
    assert values[2] > 1.8  # beyond the ends it is as near as a histogram comes
    # The loss is least where the histogram is the target's: its entropy.
    entropy = -(shares * jnp.log(shares + 1e-12)).sum(-1)
    np.testing.assert_allclose(bins.loss(jnp.log(shares + 1e-12), jnp.array([0.3, -1.0, 5.0])), entropy, atol=1e-4)


def test_a_share_is_that_of_the_normal_distribution():
    # Width 1 and a deviation of 0.75: P(0 < z < 1) = 0.4950 over P(-1 < z < 2) = 0.9545.
    shares = Bins(3, -1.0, 2.0).shares(jnp.float32(0.5))
    np.testing.assert_allclose(shares, [0.2407, 0.5186, 0.2407], atol=1e-4)


def test_what_is_dropped_keeps_the_mean():
    x = jnp.ones((200, 100))
    found = np.asarray(dropped(x, 0.2, prng.key(1)))
    assert set(np.unique(found)) == {0.0, np.float32(1.25)}
    assert found.mean() == pytest.approx(1.0, abs=0.02)
    assert np.array_equal(dropped(x, 0.2, None), x)


def test_critics_drop_different_numbers_only_with_a_key():
    make = lambda key: ActionValue(key, BOX, 2, (32,), Style(layer_norm=True, dropout=0.5))  # noqa: E731
    critics = jax.tree.map(lambda x: x[:1].repeat(3, 0), several(make, prng.key(0)))  # three alike
    inputs = jnp.ones((4, 3)), jnp.zeros((4, 2))
    calm, dropping = each_value(critics, *inputs), each_value(critics, *inputs, key=prng.key(2))
    assert np.ptp(np.asarray(calm), axis=0).max() == 0
    assert np.ptp(np.asarray(dropping), axis=0).min() > 0


def test_the_gradient_moves_a_histogram_to_its_target():
    bins = Bins(21, -2.0, 2.0)
    critics = several(lambda key: ActionValue(key, BOX, 2, (16,), bins=bins), prng.key(0))
    inputs, target = (jnp.ones((4, 3)), jnp.zeros((4, 2))), jnp.full(4, 1.5)
    loss = lambda c: value_error(c, *inputs, target, jnp.ones(4))  # noqa: E731
    step = jax.jit(lambda c: jax.tree.map(lambda x, g: x - 0.1 * g, c, jax.grad(loss, has_aux=True)(c)[0]))
    for _ in range(1000):
        critics = step(critics)
    np.testing.assert_allclose(each_value(critics, *inputs), 1.5, atol=0.02)
    assert float(value_error(critics, *inputs, target, jnp.ones(4))[1].error.max()) < 0.02
