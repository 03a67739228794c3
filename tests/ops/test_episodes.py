"""Whole episodes and their advantages, against tables worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import first

from forage.ops.episodes import finished, group_relative, groups, leave_one_out, spread_ends, whole_returns

T, F = True, False


def test_returns_stand_where_episodes_end():
    reward = jnp.array([1.0, 2, 4, 8, 16, 32])
    ended = jnp.array([F, F, T, T, F, F])  # three steps, one step, and two that do not end
    assert whole_returns(reward, ended, 0.5).tolist() == [0, 0, 1 + 1 + 1, 8, 0, 0]
    assert spread_ends(jnp.array([9.0, 9, 3, 8, 9, 9]), ended).tolist() == [3, 3, 3, 8, 0, 0]
    assert finished(ended).tolist() == [T, T, T, T, F, F]


@pytest.mark.thorough
def test_groups_are_of_equal_marks():
    marks = {"a": jnp.array([5, 7, 5, 5, 7, 5]), "b": jnp.array([[0.0], [1], [0], [2], [1], [0]])}
    valid = jnp.array([T, T, T, T, T, F])
    number = np.asarray(groups(marks, valid))
    assert number[0] == number[2] and number[1] == number[4]
    assert len({int(n) for n in number[[0, 1, 3]]}) == 3  # the fourth differs in one leaf
    assert number[5] not in number[:5]  # what is not valid is in no group of theirs
    assert (groups((), jnp.array([T, T, T])) == 0).all()  # no marks: all together


def test_leave_one_out_by_hand():
    returns = jnp.array([1.0, 100, 0, 5, 0, 7, 3])
    group = jnp.array([2, 0, 2, 4, 2, 4, 1])
    valid = jnp.array([T, F, T, T, T, T, T])
    # Of 1, 0, 0: 1 - 0, 0 - 1/2, 0 - 1/2. Of 5, 7: 5 - 7, 7 - 5. The last one is alone.
    np.testing.assert_allclose(leave_one_out(returns, valid, group), [1, 0, -0.5, -2, -0.5, 2, 0], rtol=1e-6)


def test_the_advantage_of_grpo_by_hand():
    returns = jnp.array([1.0, 0, 0, 1, 4, 4, 3])
    group, valid = jnp.array([0, 0, 0, 0, 1, 1, 2]), jnp.ones(7, bool)
    # Mean 1/2, deviation 1/2; then two that are equal, and one that is alone.
    np.testing.assert_allclose(group_relative(returns, valid, group), [1, -1, -1, 1, 0, 0, 0], atol=1e-5)


@pytest.mark.parametrize("compare", first(1, [leave_one_out, group_relative]))
def test_what_is_not_valid_changes_nothing(compare):
    key = jax.random.key(0)
    returns, group = jax.random.normal(key, (12,)), jnp.arange(12) % 3
    valid = jnp.arange(12) < 9
    found = compare(jnp.where(valid, returns, 1e6), valid, group)
    np.testing.assert_allclose(found[:9], compare(returns[:9], valid[:9], group[:9]), rtol=1e-5)
    assert (found[9:] == 0).all()
    for number in range(3):
        assert float(found[:9][group[:9] == number].sum()) == pytest.approx(0, abs=1e-5)
