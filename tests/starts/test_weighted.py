"""Places drawn by weight: never one of weight zero, for any share."""

import jax
import jax.numpy as jnp
import numpy as np

from forage.starts.weighted import cumulative_weights, draw_place


def test_a_place_of_weight_zero_is_never_drawn():
    rng = np.random.default_rng(0)
    weights = np.where(rng.uniform(size=4096) < 0.3, rng.uniform(0.01, 1, 4096), 0).astype(np.float32)
    weights[-100:] = 0
    sums = jax.jit(cumulative_weights)(jnp.asarray(weights))
    plain = np.asarray(jax.jit(jnp.cumsum)(jnp.asarray(weights)))
    assert (np.diff(plain)[weights[1:] == 0] != 0).any(), "sums are flat anyway, so nothing was tested"
    assert (np.diff(np.asarray(sums))[weights[1:] == 0] == 0).all()
    # Shares at, just below and just above every step of the sums, and the largest that is drawn.
    edges = np.asarray(sums) / sums[-1]
    shares = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1), [0.0, 1 - 2**-24]])
    found = jax.jit(jax.vmap(draw_place, (None, 0)))(sums, jnp.asarray(np.clip(shares, 0, 1 - 2**-24), jnp.float32))
    assert (weights[np.asarray(found)] > 0).all()


def test_places_are_drawn_in_proportion():
    shares = (jnp.arange(1000) + 0.5) / 1000
    found = jax.vmap(draw_place, (None, 0))(cumulative_weights(jnp.array([0.0, 1.0, 0.0, 3.0, 1.0, 0.0])), shares)
    np.testing.assert_array_equal(np.bincount(found, minlength=6), [0, 200, 0, 600, 200, 0])
