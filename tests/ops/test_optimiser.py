"""Optimisers: steps of Adan and of overshoot-bounded gradient descent by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.ops.optimiser import Masters, make_named_optimiser, obgd


def test_adan_by_hand():
    """As in the authors' adan.py, with weight 0.92 of the gradient's change."""
    optimiser, x = make_named_optimiser("adan", 0.1), jnp.float32(1.0)
    state, moments, before = optimiser.init(x), np.zeros(3), None
    decay, by_hand = np.array([0.98, 0.92, 0.99]), 1.0
    for step, gradient in enumerate([0.5, -0.2, 0.4], 1):
        difference = 0.0 if before is None else gradient - before
        looking_ahead = gradient + 0.92 * difference
        moments = decay * moments + (1 - decay) * np.array([gradient, difference, looking_ahead**2])
        mean, change, size = moments / (1 - decay**step)
        by_hand -= 0.1 * (mean + 0.92 * change) / np.sqrt(size)
        x, state = optimiser.step(jnp.float32(gradient), state, x)
        np.testing.assert_allclose(x, by_hand, rtol=1e-5)
        before = gradient


def test_overshoot_is_bounded_by_hand():
    steps = obgd(learning_rate=0.5, kappa=2.0, decay=0.5)
    x = {"a": jnp.array([1.0, -1.0]), "b": jnp.array(0.0)}
    gradients = {"a": jnp.array([0.2, 0.0]), "b": jnp.array(-0.1)}, {"a": jnp.array([3.0, 1.0]), "b": jnp.array(0.05)}
    # z = g, its size 0.3, and 0.5 * 2 * 1 * 0.3 < 1: the step is the learning rate, the error 0.4 counting as 1
    moves, state = steps.update(gradients[0], steps.init(x), x, error=jnp.float32(0.4), cut=False)
    np.testing.assert_allclose(moves["a"], [0.5 * 0.4 * 0.2, 0], rtol=1e-6)
    np.testing.assert_allclose(moves["b"], 0.5 * 0.4 * -0.1, rtol=1e-6)
    # z = 0.5 z + g = (3.1, 1), 0, its size 4.1, and 0.5 * 2 * 3 * 4.1 = 12.3: the step is 0.5 / 12.3
    moves, state = steps.update(gradients[1], state, x, error=jnp.float32(-3.0), cut=True)
    np.testing.assert_allclose(state.step, 0.5 / 12.3, rtol=1e-6)
    np.testing.assert_allclose(moves["a"], -3 * 0.5 / 12.3 * np.array([3.1, 1]), rtol=1e-6)
    np.testing.assert_allclose(moves["b"], 0, atol=1e-8)
    assert not any(np.any(z) for z in state.trace.values())  # the trace was cut after the step


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_steps_of_rounded_weights_are_made_in_float32(dtype):
    # Adam's first step is the learning rate for any gradient, and 16 bits cannot hold it next to 0.02
    optimiser, exact = make_named_optimiser("adam", 1e-6, 1.0), jnp.array([0.02, -0.3, 0.0], jnp.float32)
    weights = {"w": exact.astype(dtype), "head": jnp.float32(0.5)}
    gradient = {"w": jnp.array([1e-3, -1e-4, 1e-2], dtype), "head": jnp.float32(1e-4)}
    state = optimiser.init(weights)
    assert isinstance(state, Masters)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(state)} == {"float32", "int32"}
    stepped, state = optimiser.step(gradient, state, weights)
    begun = np.asarray(weights["w"], np.float32)
    np.testing.assert_allclose(state.weights["w"] - begun, [-1e-6, 1e-6, -1e-6], rtol=0.02)
    np.testing.assert_array_equal(stepped["w"], state.weights["w"].astype(dtype))
    assert stepped["w"].dtype == dtype and stepped["head"].dtype == jnp.float32
    # With the weights that were rounded at hand, the masters are those
    np.testing.assert_array_equal(optimiser.init(weights, weights | {"w": exact}).weights["w"], exact)
    assert not isinstance(optimiser.init({"w": exact}), Masters)
