"""ARS: its step and its statistics by hand, its observations in a run, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from small import compute, keep_compiled

from forage.config.resolve import resolve
from forage.core.types import Clock, ForageError, Spec
from forage.nn.normalise import RunningNorm
from forage_papers.agents.evolution.ars import ARS, direction_weights, merge_norms

keep_compiled()
SPEC = Spec("Test", spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,)))
SMALL = ARS(num_envs=6, top_directions=2, sigma=0.5, learning_rate=0.1)
RETURNS = jnp.array([3.0, 1, 5, 1, 2, 4])  # of three directions, and then of their opposites
WEIGHTS = np.array([2.0, 0, 1]) / np.std([3, 5, 1, 4]) / 2  # the second one's better return is the lowest


def test_the_best_directions_count_by_the_difference_of_their_returns():
    np.testing.assert_allclose(compute(lambda r: direction_weights(r, 2), RETURNS), WEIGHTS, rtol=1e-6)
    every = (RETURNS[:3] - RETURNS[3:]) / np.std(RETURNS) / 3
    np.testing.assert_allclose(compute(lambda r: direction_weights(r, 0), RETURNS), every, rtol=1e-6)
    assert (compute(lambda r: direction_weights(r, 2), jnp.full(6, 7.0)) == 0).all()


def test_a_step_is_that_of_the_formula():
    directions = jnp.array([[1.0, 0], [5, 5], [0, 2]])

    def learn():
        state = SMALL.init(jax.random.key(0), SPEC)
        weight = 0.5 * jnp.concatenate([directions, -directions])[..., None]
        population = jax.tree.map(lambda _: weight, state.network)  # the weight is its only leaf, and begins as zeros
        return SMALL.tell(state, population, RETURNS, Clock(jnp.int32(0), jnp.float32(1))).network.weight

    np.testing.assert_allclose(compute(learn)[:, 0], 0.1 * WEIGHTS @ directions, rtol=1e-6)


def test_statistics_are_those_of_all_that_was_seen():
    rows = np.random.default_rng(0).normal(3, 2, (12, 2)).astype(np.float32)

    def merge(rows):
        empty = jax.tree.map(jnp.zeros_like, RunningNorm.from_shape((2,)))
        parts = [empty.update(rows[a:b]) for a, b in ((3, 4), (4, 4), (4, 12))]  # the second one saw nothing
        many = jax.tree.map(lambda *x: jnp.stack(x), *parts)
        first = RunningNorm.from_shape((2,))
        return merge_norms(first.update(rows[:3]), many), merge_norms(first, jax.tree.map(jnp.zeros_like, many))

    found, nothing = compute(merge, rows)
    for one, right in zip(found, (12, rows.mean(0), rows.var(0)), strict=True):
        np.testing.assert_allclose(one, right, rtol=1e-5)
    np.testing.assert_array_equal(nothing.variance, [1, 1])


@pytest.mark.thorough
def test_a_run_sees_each_observation_that_it_acts_on_once():
    runner = resolve("ars", "CartPole-v1", seeds=2, agent_options={"num_envs": 4, "top_directions": 1}).runner()
    runner.begin()
    report = runner.advance(3)
    played = report.latest["played"]
    assert (runner.agent_states().norm.count == played).all() and (played > 0).all()


def test_what_cannot_be_is_refused():
    with pytest.raises(ForageError, match="draws 3 directions in 6 environments, and top_directions 4 is more"):
        ARS(num_envs=6).check(SPEC)
    images = Spec("Screen", spaces.Box(0, 255, (48, 48, 3), np.uint8), spaces.Discrete(2))
    with pytest.raises(ForageError, match="ARS is linear in numbers, and Screen shows images; open-es reads them"):
        ARS().check(images)
