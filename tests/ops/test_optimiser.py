"""Optimisers by name: Adan's steps by hand."""

import jax.numpy as jnp
import numpy as np

from forage.ops.optimiser import named


def test_adan_by_hand():
    """Xie et al. (2022), arXiv 2208.06677, algorithm 1, with Adam's correction of averages that begin at zero."""
    optimiser, x = named("adan", 0.1), jnp.float32(1.0)
    state, moments, before = optimiser.init(x), np.zeros(3), None
    decay, by_hand = np.array([0.98, 0.92, 0.99]), 1.0
    for step, gradient in enumerate([0.5, -0.2, 0.4], 1):
        difference = 0.0 if before is None else gradient - before
        looking_ahead = gradient + (1 - decay[1]) * difference
        moments = decay * moments + (1 - decay) * np.array([gradient, difference, looking_ahead**2])
        mean, change, size = moments / (1 - decay**step)
        by_hand -= 0.1 * (mean + (1 - decay[1]) * change) / np.sqrt(size)
        x, state = optimiser.step(jnp.float32(gradient), state, x)
        np.testing.assert_allclose(x, by_hand, rtol=1e-5)
        before = gradient
