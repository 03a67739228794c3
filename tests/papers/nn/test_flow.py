"""Flow matching: learning of a distribution with two modes, and its formulas by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.nn.layers import MLP
from forage.ops.optimiser import adam
from forage_papers.nn.flow import draw_between, guide_velocity, integrate_field, matching_error

small.keep_compiled()
KEY, UPDATES, MODES, SHARE = jax.random.key(0), 1500, (-1.0, 2.0), 0.25  # of the first mode


def test_a_field_by_hand():
    data = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)

    def work_out():
        point, time, velocity = draw_between(data, KEY)
        exact = matching_error(lambda x, t: velocity, data, KEY)
        off = matching_error(lambda x, t: velocity + jnp.array([1.0, 3.0]), data, KEY)
        straight = integrate_field(lambda x, t: jnp.array([2.0, -1.0]) * jnp.ones_like(x), data, 4)
        timed = integrate_field(lambda x, t: t * jnp.ones_like(x), data, 4)
        return point + (1 - time) * velocity, exact, off, straight - data, timed - data

    ends, exact, off, straight, timed = small.compute(work_out)
    np.testing.assert_allclose(ends, data, rtol=1e-4, atol=1e-5)  # along the velocity lies the data
    np.testing.assert_allclose(exact, 0)
    np.testing.assert_allclose(off, 5, rtol=1e-4)
    np.testing.assert_allclose(straight, np.tile([2.0, -1.0], (5, 1)), rtol=1e-4)
    np.testing.assert_allclose(timed, (0 + 1 + 2 + 3) / 16, rtol=1e-4)  # Euler steps begin at times 0, 1/4, 1/2, 3/4
    without, conditioned = np.array([1.0, 2.0]), np.array([3.0, 1.0])
    for weight, expected in ((0.0, without), (1.0, conditioned), (2.0, [5.0, 0.0])):
        np.testing.assert_allclose(guide_velocity(without, conditioned, weight), expected)


@pytest.mark.thorough
def test_it_reaches_both_modes_as_often_as_the_data():
    network = MLP(KEY, (2, 32, 32, 1), "silu")

    def field(network):
        return lambda x, t: network(jnp.concatenate([x, t], axis=-1))

    def update(number, carry):
        network, state = carry
        mode_key, noise_key, key = jax.random.split(jax.random.fold_in(KEY, number), 3)
        modes = jnp.where(jax.random.uniform(mode_key, (256, 1)) < SHARE, *MODES)
        data = modes + 0.1 * jax.random.normal(noise_key, modes.shape)
        gradient = jax.grad(lambda network: matching_error(field(network), data, key).mean())(network)
        return adam(5e-3 * (1 - number / UPDATES)).step(gradient, state, network)

    def draw():
        learned, _ = jax.lax.fori_loop(0, UPDATES, update, (network, adam(5e-3).init(network)))
        return integrate_field(field(learned), jax.random.normal(jax.random.key(1), (2000, 1)), 20)

    found = small.compute(draw)[:, 0]
    near = [np.abs(found - mode) < 0.5 for mode in MODES]
    assert abs(near[0].mean() - SHARE) < 0.06 and abs(near[1].mean() - (1 - SHARE)) < 0.06
    assert (near[0] | near[1]).mean() > 0.95
