"""Rows against numbers worked by hand, and their derivatives against differences."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads
from small import compute

from forage.ops.rows import concatenate_rows, merge_time, observation_rows, scale_rows, standardise_rows


def test_trees_as_rows():
    tree = {"a": np.arange(12).reshape(2, 3, 2), "b": np.arange(6).reshape(2, 3)}
    rows = merge_time(tree)
    assert rows["a"].shape == (6, 2) and rows["b"].tolist() == [0, 1, 2, 3, 4, 5]
    both = concatenate_rows(rows, {"a": rows["a"][:1], "b": rows["b"][:1]})
    assert both["b"].tolist() == [0, 1, 2, 3, 4, 5, 0] and both["a"][6].tolist() == [0, 1]
    seen = {"observation": np.ones((2, 2, 3), np.int32), "action_mask": np.ones((2, 4), np.int8)}
    found = observation_rows(seen)
    assert found.shape == (2, 6) and found.dtype == np.float32


def test_rows_by_hand():
    x = np.array([[[1.0, 2.0, 6.0]], [[5.0, 5.0, 5.0]]], np.float32)
    found = compute(lambda x: standardise_rows(x, 0.25), x)
    np.testing.assert_allclose(found, [[np.array([-2, -1, 3]) / np.sqrt(14 / 3 + 0.25)], [[0, 0, 0]]], atol=1e-6)


def test_a_large_mean_does_not_drown_what_rows_differ_by():
    found = compute(standardise_rows, np.array([4096.0, 4097.0, 4098.0, 4099.0], np.float32))
    np.testing.assert_allclose(found, np.array([-1.5, -0.5, 0.5, 1.5]) / np.sqrt(1.25), atol=1e-3)


def test_derivatives_of_both_orders():
    x = jnp.array([[0.3, -1.2, 0.8, 2.0], [1.0, 0.5, -0.5, 0.1]])
    cubes = jax.jit(lambda x, by: (scale_rows(standardise_rows(x, 0.1), by) ** 3).sum())
    check_grads(cubes, (x, jnp.array([1.0, 0.5, 2.0, -1.0])), order=2, modes=("fwd", "rev"), rtol=0.02)


def test_what_is_no_number_stays_so():
    x = np.array([1.0, np.nan, 2.0], np.float32)
    assert np.isnan(compute(jax.grad(lambda x: standardise_rows(x).sum()), x)).all()
    x = np.array([np.nan, -np.inf, np.inf], np.float32)
    np.testing.assert_array_equal(compute(scale_rows, x, np.float32(2)), x)
