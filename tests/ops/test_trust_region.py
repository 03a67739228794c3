"""Natural gradients and the line search against a policy with two actions, where all is known."""

import jax
import jax.numpy as jnp
import numpy as np

from forage.ops.trust_region import natural_step, search_line

OLD = jnp.array([0.25, 0.75])
WEIGHTS = jnp.log(OLD)


def objective(weights):
    """Return the mean of ratios times advantages 1 and -1 of two rows, and KL(old || new)."""
    new = jax.nn.softmax(weights)
    return 0.5 * (new[1] / OLD[1] - new[0] / OLD[0]), OLD @ (jnp.log(OLD) - jnp.log(new))


@jax.jit
def move(bound, weights):
    step = natural_step(objective, weights, bound, 0.0, 3)
    found, success = search_line(objective, weights, step, bound, 0.8, 10)
    return *(jax.nn.softmax(x)[1] for x in (weights + step, found)), objective(found)[1], success, found


def test_the_step_is_as_long_as_the_bound():
    """The log-odds move by sqrt(2 bound / (p (1 - p))): the divergence of that is 1 % below the bound."""
    odds = np.log(3) + np.sqrt(2e-4 / (0.75 * 0.25))
    unsearched, share, divergence, success, _ = move(1e-4, WEIGHTS)
    np.testing.assert_allclose([unsearched, share], 1 / (1 + np.exp(-odds)), atol=2e-6)
    np.testing.assert_allclose(divergence, 0.995e-4, rtol=0.01)
    assert success


def test_the_search_keeps_a_wide_bound_or_the_weights():
    _, share, divergence, success, _ = move(0.5, WEIGHTS)  # far beyond where the divergence is quadratic
    assert success and share > 0.8 and 0.1 < divergence <= 0.5
    step = jnp.array([1.0, -1.0])  # down the objective
    found, success = jax.jit(lambda w: search_line(objective, w, step, 0.5, 0.8, 10))(WEIGHTS)
    assert not success and np.array_equal(found, WEIGHTS)


def test_without_a_gradient_no_step_is_made():
    step = jax.jit(lambda w: natural_step(lambda w: (0.0 * w.sum(), objective(w)[1]), w, 0.5, 0.1, 3))(WEIGHTS)
    np.testing.assert_array_equal(step, 0.0)
