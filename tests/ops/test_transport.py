"""Sinkhorn's iteration, against sums that a plan must have, the linear program it tends to, and a plan by hand."""

import jax
import numpy as np
import pytest
import scipy.optimize

from forage.ops.transport import cosine_cost, transport_plan

plan = jax.jit(transport_plan, static_argnames="iterations")
RANDOM = np.random.default_rng(0)


def exact(cost, rows, columns):
    """The least cost of a plan, by linear programming."""
    n, m = cost.shape
    sums = np.concatenate([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    found = scipy.optimize.linprog(cost.reshape(-1), A_eq=sums, b_eq=np.concatenate([rows, columns]))
    assert found.success
    return found.fun


@pytest.mark.parametrize("shape", [(5, 7), (8, 8), (6, 3)])
def test_with_little_blur_it_is_the_linear_programs(shape):
    cost = RANDOM.uniform(0, 2, shape).astype(np.float32)
    rows, columns = (RANDOM.dirichlet(np.ones(n)).astype(np.float32) for n in shape)
    found = np.asarray(plan(cost, rows, columns, 2e-3, iterations=20_000))
    np.testing.assert_allclose(found.sum(0), columns, atol=1e-5)
    np.testing.assert_allclose(found.sum(1), rows, atol=2e-3)
    least = exact(cost, rows, columns)
    assert least - 2e-3 <= (found * cost).sum() <= least + 0.01


def test_two_points_by_hand():
    """P = [[x, 1/2 - x], [1/2 - x, x]] is optimal for x / (1/2 - x) = exp(c / blur), with c the cost of crossing."""
    found = plan(np.float32([[0.0, 0.3], [0.3, 0.0]]), *np.full((2, 2), 0.5, np.float32), 0.2)
    x = 0.5 / (1 + np.exp(-0.3 / 0.2))
    np.testing.assert_allclose(found, [[x, 0.5 - x], [0.5 - x, x]], rtol=1e-5)


def test_what_fills_up_an_array_moves_nothing():
    cost = RANDOM.uniform(0, 2, (4, 3)).astype(np.float32)
    rows, columns = np.float32([0.5, 0.5, 0, 0]), np.float32([0.25, 0.75, 0])
    found = np.asarray(plan(cost, rows, columns, 0.1))
    alone = plan(cost[:2, :2], rows[:2], columns[:2], 0.1)
    np.testing.assert_allclose(found[:2, :2], alone, rtol=1e-5)
    assert found[2:].sum() == 0 and found[:, 2:].sum() == 0


def test_the_cost_is_one_minus_the_cosine():
    found = cosine_cost(np.float32([[1, 0], [0, 2]]), np.float32([[3, 0], [-1, 0], [1, 1]]))
    half = np.sqrt(0.5)
    np.testing.assert_allclose(found, [[0, 2, 1 - half], [1, 1, 1 - half]], atol=1e-6)
