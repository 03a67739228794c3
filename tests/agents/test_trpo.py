"""TRPO's step against hand-worked numbers: the natural gradient, its length, the line search, and the value apart."""

import dataclasses

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.agents.policy_gradient.ppo import Targets
from forage.agents.policy_gradient.rollouts import Reading, Sequence
from forage.agents.policy_gradient.trpo import TRPO
from forage.core.types import Spec

SPEC = Spec("Table", spaces.Discrete(2), spaces.Discrete(2))
AGENT = TRPO(
    num_envs=2, rollout_length=1, minibatches=1, epochs=2, hidden_sizes=(2,), activation="relu",
    damping=0.0, normalise_advantage=False, target_kl=1e-4,
)  # fmt: skip


def table():
    """Return a network whose policy in state 0 takes action 1 in three of four cases."""
    network = small.zeros(lambda: AGENT.init(jax.random.key(0), SPEC)).network
    where = lambda n: (n.torsos.body.layers[0].weight, n.actor.weight)  # noqa: E731
    tables = np.stack([np.eye(2)] * 2), np.array([[0.0, np.log(3)], [0.0, 0.0]])
    return equinox.tree_at(where, network, tuple(table.astype(np.float32) for table in tables))


def rollout(advantage):
    """Return one step of two environments in state 0, with actions 1 and 0."""
    observation, action = jnp.zeros((1, 2), jnp.int32), jnp.array([[1, 0]])
    old, ones = jnp.log(jnp.array([[0.75, 0.25]])), jnp.ones((1, 2))
    zeros = jnp.zeros((1, 2, 1))
    read = Reading(observation, action, None, old, zeros, zeros)
    return read, Targets(action, old, jnp.asarray(advantage)[None], ones, zeros + 3.0, None, ones)


@jax.jit
def improve(agent, network, advantage):
    """Return the probabilities in state 0 after the policy's step, metrics and the network."""
    better, metrics = agent.improve_policy(network, *rollout(advantage))
    return jax.nn.softmax(agent.outputs(better, jnp.zeros(1, jnp.int32), None)[0][0]), metrics, better


@pytest.mark.thorough
def test_a_rollouts_step_is_the_natural_gradients():
    agent = dataclasses.replace(AGENT, line_search_steps=0)
    share, metrics, _ = improve(agent, table(), jnp.array([1.0, -1.0]))
    np.testing.assert_allclose(share[1], 0.75 + np.sqrt(2e-4 * 0.75 * 0.25), atol=5e-5)
    np.testing.assert_allclose(metrics["kl"], 1e-4, rtol=0.02)
    np.testing.assert_allclose(metrics["improvement"], 0.5 * (share[1] / 0.75 - share[0] / 0.25), rtol=1e-3)


@pytest.mark.thorough
def test_the_value_learns_and_leaves_the_policy_as_it_is():
    state = small.at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    read, targets = rollout((0.0, 0.0))

    @jax.jit
    def learn(state):
        return AGENT.descend(state, read, targets, AGENT.descent(0.1), jax.random.key(1))

    network, _, metrics = learn(state)
    seen = jnp.zeros(1, jnp.int32)
    (before, value), (after, later) = (AGENT.outputs(n, seen, None) for n in (state.network, network))
    np.testing.assert_array_equal(before, after)
    assert abs(later[0, 0] - 3.0) < abs(value[0, 0] - 3.0) and metrics["value_loss"] > 0


@pytest.mark.thorough
def test_layers_shared_with_the_policy_get_no_gradient_from_the_value():
    agent = dataclasses.replace(AGENT, gru_size=2)
    network = small.at_once(lambda: agent.init(jax.random.key(0), SPEC)).network
    read, targets = rollout((1.0, -1.0))
    sequence = Sequence(jnp.ones((2, agent.gru_size)), jnp.zeros((1, 2), bool), jnp.zeros((1, 2, 2)))
    gradient = jax.jit(jax.grad(agent.loss, has_aux=True))(network, read.observation, targets, sequence)[0]
    assert np.abs(gradient.critic.weight).sum() > 0
    assert all(not np.any(x) for x in jax.tree.leaves((gradient.torsos, gradient.gru, gradient.actor)))
