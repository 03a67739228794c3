"""The target over pairs of critics, and the most promising of the actions drawn."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from critic_helpers import inputs_of
from fine_tuning_helpers import SPEC, constant_critics, linear_critics
from small import at_once, compute

from forage.config.ranges import check_ranges
from forage.core.ports import ActInputs
from forage.core.types import Experience, ForageError
from forage.nn.critics import mean_least_pair
from forage_papers.agents.actor_critic.offline_to_online.e2o import E2O

AGENT = E2O(critics=3, hidden_sizes=(), discount=0.9, initial_temperature=1e-12, optimism=2.0, candidates=64)


def test_the_mean_over_pairs_of_the_lesser_value():
    values = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    pairs = [np.minimum(values[i], values[j]) for i, j in itertools.combinations(range(5), 2)]
    np.testing.assert_allclose(compute(mean_least_pair, values), np.mean(pairs, axis=0), rtol=1e-5)


def test_the_target_by_hand():
    state = at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    state = state._replace(target_critics=constant_critics(state.target_critics, [1.0, 4.0, 2.0]))
    inputs = inputs_of(np.zeros((2, 3)), reward=1.0, terminated=np.array([False, True]), next_noise=np.zeros((2, 2)))
    target = compute(AGENT.target, state, inputs)
    np.testing.assert_allclose(target, [1 + 0.9 * (1 + 1 + 2) / 3, 1], rtol=1e-5)


def test_the_most_promising_action_is_taken():
    """Critics say 1, 2 and 3 times the first number of the action: 2 in the mean, and their deviation grows with it."""
    state = at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    state = state._replace(critics=linear_critics(state.critics, jnp.array([1.0, 2.0, 3.0]), 3))
    seen, action = np.zeros((2, 3)), np.array([[0.5, 0.0], [-1.0, 0.9]])
    promise = compute(AGENT.promise, state, seen, action)
    np.testing.assert_allclose(promise, [1 + 2 * 0.5 * np.sqrt(2 / 3), -2 + 2 * np.sqrt(2 / 3)], rtol=1e-5)
    far = compute(lambda s: AGENT.act(s, ActInputs((), jnp.zeros(3), jax.random.key(1), True))[0], state)
    own = compute(lambda s: AGENT.act(s, ActInputs((), jnp.zeros(3), jax.random.key(1), False))[0], state)
    assert far[0] > 1.5 and abs(own[0]) < 1.5  # of 64 draws the furthest, in a box up to 2


def test_exploration_sees_what_the_networks_see():
    agent = E2O(critics=2, hidden_sizes=(4,), candidates=1, normalise_observation=True)
    seen = 1000 + 100 * np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    zeros, no = np.zeros(50, np.float32), np.zeros(50, bool)
    data = Experience(seen, np.zeros((50, 2), np.float32), zeros, seen, no, no, zeros.astype(np.int32), ())

    def draw():
        state = agent.init_from_dataset(agent.init(jax.random.key(0), SPEC), data)
        act = lambda key: agent.act(state, ActInputs((), jnp.asarray(seen[0]), key, True))[0]  # noqa: E731
        return jax.vmap(act)(jax.random.split(jax.random.key(1), 100))

    assert (np.asarray(at_once(draw)).std(0) > 0.1).all()  # raw ones would drive the policy to a corner


def test_what_is_refused():
    with pytest.raises(ForageError, match="mean over pairs of critics; leave target_subset out"):
        E2O(target_subset=2)
    with pytest.raises(ForageError, match="critics of it is 2 or more, not 1"):
        check_ranges(E2O(critics=1), "it")
