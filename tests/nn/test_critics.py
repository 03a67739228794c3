"""Operations on several critics: least values, histograms, and dropout; by hand."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from jaxtyping import Array
from small import compute

from forage.core import prng
from forage.nn.critics import (
    ActionValue,
    Bins,
    Quantiles,
    alignment,
    each_value,
    min_of_critics,
    min_of_subset,
    stack_modules,
    truncate_quantiles,
    value_error,
)
from forage.nn.layers import apply_dropout
from forage.nn.networks import NetworkConfig

BOX = spaces.Box(-1.0, 1.0, (3,))


def test_the_least_of_two_of_three_is_one_of_three_numbers():
    values = jnp.array([[1.0, 6.0], [2.0, 5.0], [3.0, 4.0]])
    draws = jax.vmap(lambda key: min_of_subset(values, 2, key))(jax.random.split(prng.key(0), 300))
    pairs, times = np.unique(np.asarray(draws), axis=0, return_counts=True)
    # Critics 0 and 1, 0 and 2, 1 and 2: the same ones for all of a batch, each pair as often as another.
    assert pairs.tolist() == [[1.0, 4.0], [1.0, 5.0], [2.0, 4.0]]
    assert times.min() > 70


def test_the_least_of_all_needs_no_key():
    values = jnp.array([[1.0, 6.0], [2.0, 5.0]])
    assert min_of_subset(values).tolist() == [1.0, 5.0]
    assert min_of_subset(values, 2).tolist() == [1.0, 5.0]


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


def test_the_largest_quantiles_of_all_critics_are_dropped_together():
    # Two critics, one row, three quantiles each; one each is dropped, and both are the first critic's.
    quantiles = jnp.array([[[9.0, 1.0, 8.0]], [[2.0, 3.0, 0.0]]])
    assert truncate_quantiles(quantiles, 1).tolist() == [[0.0], [1.0], [2.0], [3.0]]
    assert truncate_quantiles(quantiles, 0)[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 8.0, 9.0]


def test_the_error_of_quantiles_by_hand():
    # Quantiles 0 and 2 stand for 1/4 and 3/4. Against 3 and 0: u is 3 and 0, then 1 and -2, whose Huber losses are 2.5,
    # 0, 0.5 and 1.5. Means over samples: 1/4 2.5 / 2, then (3/4 0.5 + 1/4 1.5) / 2; the loss is the mean of the two.
    found = Quantiles(2).loss(jnp.array([[[0.0, 2.0]]]), jnp.array([[3.0], [0.0]]))
    np.testing.assert_allclose(found, [[(0.3125 + 0.375) / 2]], rtol=1e-6)


def test_quantiles_settle_where_they_stand():
    samples = jnp.arange(100.0)[:, None]  # the threshold of the Huber loss, 1, is small beside their range
    loss = lambda q: Quantiles(4).loss(q, samples).sum()  # noqa: E731
    step = lambda _, q: q - 50.0 * jax.grad(loss)(q)  # noqa: E731
    found = jax.jit(lambda q: jax.lax.fori_loop(0, 400, step, q))(jnp.zeros((1, 1, 4)))
    np.testing.assert_allclose(found[0, 0], [12, 37, 62, 87], atol=1.0)


class Plane(NamedTuple):
    """A critic with a known gradient with respect to the action."""

    slope: Array

    def __call__(self, observation, action):
        return action @ self.slope


@pytest.mark.thorough
def test_alignment_is_the_sum_of_cosines_between_critics():
    # The cosines of (3, 0), (0, 2) and (1, 1) are 0, 1/sqrt(2) and 1/sqrt(2), each pair twice, over the others: 2.
    critics = Plane(jnp.array([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]]))
    inputs = jnp.zeros((4, 3)), jnp.ones((4, 2))
    np.testing.assert_allclose(alignment(critics, *inputs), np.full(4, 2 * (2 / 2**0.5) / 2), rtol=1e-5)
    alike = Plane(jnp.array([[3.0, 0.0], [0.2, 0.0], [1.0, 0.0]]))
    np.testing.assert_allclose(alignment(alike, *inputs), 3.0, rtol=1e-5)
    flat = jax.grad(lambda slope: alignment(Plane(slope), *inputs).sum())(jnp.zeros((2, 2)))
    assert np.isfinite(flat).all()  # of critics that do not depend on the action


def test_what_is_dropped_keeps_the_mean():
    x = jnp.ones((200, 100))
    found = np.asarray(apply_dropout(x, 0.2, prng.key(1)))
    assert set(np.unique(found)) == {0.0, np.float32(1.25)}
    assert found.mean() == pytest.approx(1.0, abs=0.02)
    assert np.array_equal(apply_dropout(x, 0.2, None), x)


def test_what_is_dropped_here_says_nothing_of_what_is_dropped_there():
    keys = jax.random.split(prng.key(0), 500)
    kept = compute(jax.vmap(lambda key: apply_dropout(jnp.ones(2048), 0.5, key)), keys) > 0
    sign = np.where(kept, 1.0, -1.0)
    apart = [sign[:, lag:] * sign[:, :-lag] for lag in (1, 2, 64, 256, 1024)] + [sign[1:] * sign[:-1]]
    for product in (sign, *apart):
        assert abs(product.mean()) < 5 / np.sqrt(product.size)
        for axis in (0, 1):  # neither of a key nor of a place
            assert np.abs(product.mean(axis)).max() < 5.5 / np.sqrt(product.shape[axis])


@pytest.mark.thorough
def test_critics_drop_different_numbers_only_with_a_key():
    make = lambda key: ActionValue(key, BOX, 2, (32,), NetworkConfig(layer_norm=True, dropout=0.5))  # noqa: E731
    critics = jax.tree.map(lambda x: x[:1].repeat(3, 0), stack_modules(make, prng.key(0)))  # three alike
    inputs = jnp.ones((4, 3)), jnp.zeros((4, 2))
    calm, dropping = each_value(critics, *inputs), each_value(critics, *inputs, key=prng.key(2))
    assert np.ptp(np.asarray(calm), axis=0).max() == 0
    assert np.ptp(np.asarray(dropping), axis=0).min() > 0


@pytest.mark.thorough
def test_the_gradient_moves_a_histogram_to_its_target():
    bins = Bins(21, -2.0, 2.0)
    critics = stack_modules(lambda key: ActionValue(key, BOX, 2, (16,), bins=bins), prng.key(0))
    inputs, target = (jnp.ones((4, 3)), jnp.zeros((4, 2))), jnp.full(4, 1.5)
    loss = lambda c: value_error(c, *inputs, target, jnp.ones(4))  # noqa: E731
    step = jax.jit(lambda c: jax.tree.map(lambda x, g: x - 0.1 * g, c, jax.grad(loss, has_aux=True)(c)[0]))
    for _ in range(1000):
        critics = step(critics)
    np.testing.assert_allclose(each_value(critics, *inputs), 1.5, atol=0.02)
    assert float(value_error(critics, *inputs, target, jnp.ones(4))[1].error.max()) < 0.02


def test_the_derivative_of_the_least_is_that_of_the_chosen_one():
    values = np.array([[1.0, 5.0, 2.0], [3.0, -4.0, 2.0]], np.float32)
    np.testing.assert_array_equal(compute(min_of_critics, values), [1.0, -4.0, 2.0])
    slopes = compute(jax.grad(lambda values: (min_of_critics(values) * jnp.array([1.0, 2.0, 3.0])).sum()), values)
    np.testing.assert_array_equal(slopes, [[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]])
    assert np.isnan(compute(min_of_critics, np.array([[1.0], [np.nan]], np.float32))).all()
