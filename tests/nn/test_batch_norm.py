"""Batch renormalisation by hand: in training, in acting, and parameters that an optimiser may not move."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from small import compute

from forage.core import prng
from forage.nn.batch_norm import BatchNorm, BatchStyle, with_statistics
from forage.nn.layers import MLP
from forage.ops.optimiser import make_named_optimiser

BATCH = jnp.array([[1.0, -2.0], [3.0, 2.0], [8.0, 6.0], [99.0, 99.0]])
COUNTS = jnp.array([True, True, True, False])  # mean 4 and 2; variance 26/3 and 32/3


def test_a_batch_is_normalised_by_itself_and_acting_by_what_was_seen():
    norm = BatchNorm(2, BatchStyle(rate=0.1))
    y, after = compute(norm.apply_in_training, BATCH, COUNTS)
    expected = (np.asarray(BATCH) - [4, 2]) / np.sqrt(np.array([26, 32]) / 3 + 1e-3)
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    np.testing.assert_allclose(after.mean, [0.4, 0.2], rtol=1e-5)
    np.testing.assert_allclose(after.variance, 0.9 + 0.1 * np.array([26, 32]) / 3, rtol=1e-5)
    assert after.batches == 1
    acting = compute(equinox.tree_at(lambda n: n.scale, after, jnp.array([2.0, 3.0])), BATCH[0])
    by_hand = [2 * (1 - 0.4), 3 * (-2 - 0.2)] / np.sqrt(after.variance + 1e-3)
    np.testing.assert_allclose(acting, by_hand, rtol=1e-5)


def test_running_statistics_count_after_the_warm_up_within_bounds():
    norm = BatchNorm(2, BatchStyle(warm_up=3))
    known = equinox.tree_at(lambda n: (n.mean, n.variance), norm, (jnp.array([3.0, 0.0]), jnp.array([4.0, 0.01])))
    for batches in (2.0, 3.0):
        one = equinox.tree_at(lambda n: n.batches, known, jnp.float32(batches))
        y, _ = compute(one.apply_in_training, BATCH, COUNTS)
        plain = (np.asarray(BATCH) - [4, 2]) / np.sqrt(np.array([26, 32]) / 3 + 1e-3)
        # The second one's deviation is 31 times the running one and its mean 19 of these away: bounds of 3 and 5.
        stretched = plain * [np.sqrt((26 / 3 + 1e-3) / 4.001), 3] + [1 / np.sqrt(4.001), 5]
        np.testing.assert_allclose(y, plain if batches == 2 else stretched, rtol=1e-4, atol=1e-6)


def test_a_batch_of_nothing_moves_nothing():
    norm = BatchNorm(2)
    y, after = compute(norm.apply_in_training, BATCH, jnp.zeros(4, bool))
    assert np.isfinite(y).all()
    jax.tree.map(np.testing.assert_array_equal, after, norm)


def test_the_statistics_get_no_gradient_and_are_not_an_optimisers_to_move():
    mlp = MLP(prng.key(0), (2, 4, 1), batch_norm=BatchStyle(rate=0.1, warm_up=0))
    assert [norm.scale.size for norm in mlp.batch_norms] == [2, 4]  # of the inputs, and of what is activated

    def loss(mlp):
        y, taught = mlp.apply_in_training(BATCH, COUNTS)
        return jnp.sum(y**2 * COUNTS[:, None]), taught

    decaying = make_named_optimiser("adamw", 0.1)
    gradient, taught = compute(jax.grad(loss, has_aux=True), mlp)
    stepped = compute(lambda g, m: decaying.step(g, decaying.init(m), m)[0], gradient, mlp)
    stepped, mended = compute(lambda a, b: (a, with_statistics(a, b)), stepped, taught)
    for number, norm in enumerate(mended.batch_norms):
        for name in ("mean", "variance", "batches"):
            assert not np.any(getattr(gradient.batch_norms[number], name))
            np.testing.assert_array_equal(getattr(norm, name), getattr(taught.batch_norms[number], name))
        np.testing.assert_array_equal(norm.scale, stepped.batch_norms[number].scale)
        assert np.any(norm.scale != 1)
    assert np.any(stepped.batch_norms[0].variance != taught.batch_norms[0].variance)  # weights that decay take it along


def test_several_networks_learn_from_one_batch_as_each_alone():
    make = lambda key: MLP(key, (2, 4, 1), batch_norm=BatchStyle(rate=0.1, warm_up=0))  # noqa: E731
    keys = jax.random.split(prng.key(0), 3)

    def run_learn(mlp, batch):
        def loss(mlp, batch):
            y, taught = mlp.apply_in_training(batch, COUNTS)
            return jnp.sum(y**2 * COUNTS[:, None]), taught

        return jax.grad(loss, (0, 1), has_aux=True)(mlp, batch)

    together = compute(jax.vmap(run_learn, (0, None)), jax.vmap(make)(keys), BATCH)
    for number, key in enumerate(keys):
        alone = compute(run_learn, make(key), BATCH)
        mine = jax.tree.map(lambda x, number=number: x[number], together)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), mine, alone)
