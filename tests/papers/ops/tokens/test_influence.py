"""Influence of steps by attention, and the places that follow from it, worked by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from forage_papers.ops.tokens.influence import forward_influence, influential, mixed, steps_between

places = jax.jit(influential, static_argnums=1, static_argnames="apart")


def test_steps_end_with_certain_tokens():
    assert steps_between(jnp.array([5, 9, 5, 5, 9]), (9, 8)).tolist() == [0, 0, 1, 1, 1]
    assert steps_between(jnp.array([5, 4, 3]), (9,)).tolist() == [0, 1, 2]  # it has none: each token is one
    assert steps_between(jnp.array([9, 4]), ()).tolist() == [0, 1]


def test_influence_by_hand():
    """Three steps of tokens 0, 1 and 2, and 3; the last one's mean attention to the middle one."""
    step, wrote = jnp.array([0, 1, 1, 2, 3]), jnp.array([True] * 4 + [False])
    attention = np.zeros((1, 2, 5, 5), np.float32)
    attention[0, 0, 3] = [0.5, 0.1, 0.3, 0.1, 0]
    attention[0, 0, 2, 0] = 0.8
    attention[0, 1, 3] = [0.1, 0.4, 0.4, 0.1, 0]
    attention[0, 1, 4] = 9  # of padding
    found = forward_influence(jnp.asarray(attention), step, wrote, distance=1)
    np.testing.assert_allclose(found, [0, 0.4, -1, 0, -1], rtol=1e-6)  # the larger of 0.2 and 0.4; none comes after 3
    far = forward_influence(jnp.asarray(attention), step, wrote, distance=2)
    np.testing.assert_allclose(far, [0, 0, -1, 0, -1], atol=1e-7)
    mine = jnp.asarray(attention).at[0, 0, 2, 1].set(0.6).at[0, 0, 1, 1].set(0.2)
    own = forward_influence(mine, step, wrote, distance=0)  # (0.6 + 0.2) / 4 of itself and 0.2 of the last
    np.testing.assert_allclose(own[1], 0.4, rtol=1e-6)


def test_places_by_hand():
    score = jnp.array([0.0, 0.5, -1.0, 0.9, 0.2, 0.8, 0.1])
    assert places(score, 2, top=0.3).tolist() == [3, 5]  # 0.9 and 0.8
    assert places(score, 2, top=0.8).tolist() == [1, 3]  # of the five at the top the earliest
    assert places(score, 2, top=0.8, apart=3).tolist() == [3, 6]  # 3 tokens from the beginning, and from 3
    assert places(score, 2, top=0.01).tolist() == [1, 3]  # 0.9, and the earliest other step
    assert places(jnp.array([0.0, 0.0, 0.0, -1.0]), 2).tolist() == [1, 2]  # all alike
    assert places(jnp.array([0.0, 0.3, -1.0]), 3).tolist() == [0, 0, 1]  # one step alone can be branched at
    assert places(jnp.array([0.0, -1.0]), 3).tolist() == [0, 0, 0]


def test_only_answers_that_count_make_a_prompt_mixed():
    prompt, reward = jnp.array([4, 4, 4, 7, 7, -1]), jnp.array([1.0, 0, 1, 1, 0, 0])
    counts = jnp.array([True, True, True, True, False, False])
    assert mixed(prompt, reward, counts).tolist() == [True, True, True, False, False, False]
