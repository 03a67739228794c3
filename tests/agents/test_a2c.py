"""A2C: its step by the formula, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gymnasium import spaces
from small import at_once, compute

from forage.agents.policy_gradient.a2c import A2C
from forage.core.types import AGENT, Batch, Clock, Experience, ForageError, Spec

SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(2))
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
AGENT_OF_TWO = A2C(
    num_envs=2, rollout_length=3, hidden_sizes=(8,), discount=0.5, learning_rate=0.1, entropy_coefficient=0.25,
    value_coefficient=0.5, max_gradient_norm=1e6, optimiser="sgd",
)  # fmt: skip


def test_one_step_is_down_the_formula():
    agent, key = AGENT_OF_TWO, jax.random.key(0)
    state = at_once(lambda: agent.init(key, SPEC))
    observation = jax.random.normal(key, (4, 2, 3))
    action = np.array([[0, 1], [1, 0], [1, 1]], np.int32)
    reward = np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 4.0]], np.float32)
    terminated, truncated = np.zeros((3, 2), bool), np.zeros((3, 2), bool)
    terminated[1, 0] = truncated[1, 1] = True
    source = np.full((3, 2), AGENT, np.int32)
    e = Experience(observation[:3], action, reward, observation[1:], terminated, truncated, source, ())
    learned, metrics, _ = compute(agent.learn, state, Batch(e, jnp.ones(2), jnp.arange(2)), CLOCK, key)

    # Returns to the end of the rollout by hand: the first environment ends at its second step, the second is cut there.
    v = np.asarray(jax.vmap(jax.vmap(lambda o: state.network.value(o)[0]))(observation))
    target = np.stack([
        [1 + 0.5 * 0, 2 + 0.5 * (-1 + 0.5 * v[2, 1])],
        [0, -1 + 0.5 * v[2, 1]],
        [3 + 0.5 * v[3, 0], 4 + 0.5 * v[3, 1]],
    ])  # fmt: skip
    advantage = target - v[:3]

    def formula(network):
        def one(observation, action, advantage, target):
            features = network.torso(0)(observation)
            policy = network.policy(features, observation)
            value = network.value(observation)[0]
            pushed = -advantage * policy.log_probability(action)
            return pushed + 0.5 * (value - target) ** 2 / 2 - 0.25 * policy.entropy()

        return jax.vmap(jax.vmap(one))(observation[:3], action, advantage, target).mean()

    gradient = jax.jit(jax.grad(formula))(state.network)
    by_hand = optax.apply_updates(state.network, jax.tree.map(lambda g: -0.1 * g, gradient))
    for ours, hand in zip(jax.tree.leaves(learned.network), jax.tree.leaves(by_hand), strict=True):
        np.testing.assert_allclose(ours, hand, rtol=1e-4, atol=1e-6)
    assert float(metrics["clip_fraction"]) == 0


OF_PPO = {"epochs": 4, "minibatches": 4, "clip": 0.1, "clip_value": True, "target_kl": 0.1}


@pytest.mark.parametrize("option", [{name: value} for name, value in OF_PPO.items()])
def test_what_only_ppo_feels_is_refused(option):
    with pytest.raises(ForageError, match=r"one update of each rollout.*or take ppo"):
        A2C(**option).check(SPEC)
    A2C().check(SPEC)
