"""Langevin DQN: one step by hand, the spread that the noise leaves, and the loss that it shares with DQN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium import spaces

from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage_papers.agents.q_learning.langevin_dqn import Drift, LangevinDQN

SPEC = Spec("Table", spaces.Discrete(3), spaces.Discrete(2))
CLOCK = Clock(jnp.int32(0), jnp.float32(100))


def keep_still(**options):
    """Without noise to speak of."""
    return LangevinDQN(inverse_temperature=1e30, **options)


def test_three_steps_by_hand():
    agent = keep_still(learning_rate=0.1, bias_factor=0.5)
    weights, drift = np.array([1.0, -2.0]), Drift(np.zeros(2), np.zeros(2))
    expected, mean, square = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for gradient in ([2.0, 0.0], [-1.0, 3.0], [0.5, 0.5]):
        gradient = np.array(gradient)
        expected = expected - 0.1 * (gradient + 0.5 * mean / np.sqrt(square + 1e-8))  # those of the steps before
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        weights, drift = jax.jit(agent.step)(weights, jnp.asarray(gradient, jnp.float32), drift, 0.1, jax.random.key(0))
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
    np.testing.assert_allclose(drift.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(drift.square, square, rtol=1e-5)


@pytest.mark.thorough
def test_weights_that_no_data_holds_wander_and_held_ones_spread_as_the_temperature_says():
    """For a loss of c w^2 / 2, without the drift, samples have the variance 1 / (beta c (1 - eta c / 2))."""
    curvature = np.array([0.0, 4.0])
    agent = LangevinDQN(learning_rate=0.05, bias_factor=0.0, inverse_temperature=50.0)

    @jax.jit
    @jax.vmap
    def run(key):
        def step(carry, key):
            weights, drift = carry
            return agent.step(weights, curvature * weights, drift, 0.05, key), None

        start = jnp.zeros(2), Drift(jnp.zeros(2), jnp.zeros(2))
        return jax.lax.scan(step, start, jax.random.split(key, 100))[0][0]

    free, held = np.asarray(run(jax.random.split(jax.random.key(0), 4000))).T
    np.testing.assert_allclose(free.var(), 100 * 2 * 0.05 / 50, rtol=0.12)  # more than five standard deviations
    np.testing.assert_allclose(held.var(), 1 / (50 * 4 * (1 - 0.05 * 4 / 2)), rtol=0.12)


def batch_of(rewards):
    zeros = np.zeros((1, len(rewards)), jnp.int32)
    ends = zeros + 1 > 0
    reward = np.asarray(rewards, jnp.float32)[None]
    experience = Experience(zeros, zeros, reward, zeros, ends, ~ends, zeros, ())
    return jax.device_put(Batch(experience, np.ones(len(rewards)), zeros[0]))


@pytest.mark.thorough
def test_it_learns_what_dqn_learns_and_the_target_follows():
    agent = keep_still(hidden_sizes=(8,), rollout_length=4, target_update_interval=8, learning_rate=0.01)
    start = small.at_once(lambda: agent.init(jax.random.key(0), SPEC))
    learn = jax.jit(lambda state: agent.learn(state, batch_of([3.0, 3.0]), CLOCK, jax.random.key(1)))
    once, metrics, errors = learn(start)
    assert jax.tree.all(jax.tree.map(np.array_equal, once.target, start.target))
    loss = jax.jit(lambda s: agent.loss(s.network, s.target, batch_of([3.0, 3.0]))[0])
    np.testing.assert_allclose(metrics["loss"], loss(start), rtol=1e-5)
    np.testing.assert_allclose(errors, [3 - start.network(jnp.int32(0))[0]] * 2, rtol=1e-5)
    twice, *_ = learn(once)
    assert jax.tree.all(jax.tree.map(np.array_equal, twice.target, twice.network))
    state = twice
    for _ in range(200):
        state, *_ = learn(state)
    np.testing.assert_allclose(state.network(jnp.int32(0))[0], 3.0, atol=0.1)
    assert float(loss(state)) < float(loss(start)) / 10


@pytest.mark.thorough
def test_seeds_wander_apart_and_actions_are_greedy():
    agent = LangevinDQN(hidden_sizes=(8,), inverse_temperature=1e3)
    start = small.at_once(lambda: agent.init(jax.random.key(0), SPEC))
    learn = jax.jit(jax.vmap(lambda key: agent.learn(start, batch_of([3.0]), CLOCK, key)[0]))
    states = learn(jax.random.split(jax.random.key(2), 2))
    assert all((leaf[0] != leaf[1]).any() for leaf in jax.tree.leaves(states.network))
    for explore in (True, False):
        action, hidden, policy_info = agent.act(start, ActInputs((), jnp.int32(2), jax.random.key(3), explore))
        assert int(action) == int(jnp.argmax(agent.action_values(start, (), jnp.int32(2))))
        assert (hidden, policy_info) == ((), ())
    np.testing.assert_array_equal(agent.probabilities(start, jnp.int32(2), True), np.eye(2)[int(action)])


@pytest.mark.parametrize(("options", "words"), [({"inverse_temperature": 0.0}, "above 0"), ({}, "try ppo")])
def test_what_it_cannot_do(options, words):
    spec = SPEC if options else Spec("Pendulum-v1", SPEC.observation_space, spaces.Box(-2, 2, (1,)))
    with pytest.raises(ForageError, match=words):
        check(LangevinDQN(**options), spec)
