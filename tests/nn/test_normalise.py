"""Running mean and variance by hand: those of all rows that count, in any batches."""

import jax.numpy as jnp
import numpy as np

from forage.nn.normalise import RunningNorm, apply_norm, first_statistics, update_norms


def test_batches_of_different_sizes_are_one_sample():
    """1 and 3, then 5 alone, then 7, 9 and 11: six numbers of mean 6 and variance 70 / 6."""
    norm = RunningNorm.from_shape(())
    for batch, count, mean, variance in (([1, 3], 2, 2, 1), ([5], 3, 3, 8 / 3), ([7, 9, 11], 6, 6, 70 / 6)):
        norm = norm.update(jnp.array(batch, jnp.float32))
        np.testing.assert_allclose(norm, (count, mean, variance), rtol=1e-6)


def test_rows_that_do_not_count_leave_no_trace():
    """In two dimensions, two steps of two environments: rows (1, 10) and (3, 30) count; then none does."""
    seen = jnp.array([[[1, 10], [99, 99]], [[99, 99], [3, 30]]], jnp.float32)
    counts = jnp.array([[True, False], [False, True]])
    norm = update_norms(RunningNorm.from_shape((2,)), seen, counts)
    for _ in range(2):
        np.testing.assert_allclose(norm.count, 2)
        np.testing.assert_allclose(norm.mean, [2, 20], rtol=1e-6)
        np.testing.assert_allclose(norm.variance, [1, 100], rtol=1e-6)
        norm = update_norms(norm, seen, counts & False)


def test_observations_are_measured_in_deviations_up_to_ten():
    norm = RunningNorm(jnp.float32(5), jnp.array([2.0, 20.0]), jnp.array([4.0, 100.0]))
    np.testing.assert_allclose(apply_norm(norm, jnp.array([6.0, 10.0])), [2, -1], rtol=1e-6)
    np.testing.assert_allclose(apply_norm(norm, jnp.array([50.0, -999.0])), [10, -10])
    # Before anything was seen numbers are as they are, and the first rollout is read by its own statistics alone.
    nothing = RunningNorm.from_shape((2,))
    np.testing.assert_allclose(apply_norm(nothing, jnp.array([6.0, -3.0])), [6, -3], rtol=1e-6)
    np.testing.assert_array_equal(first_statistics(nothing, norm).mean, norm.mean)
    np.testing.assert_array_equal(first_statistics(norm, norm._replace(mean=norm.mean + 1)).mean, norm.mean)
