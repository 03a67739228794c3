"""Held noise: its redraws; noise that depends on the state (gSDE), in PPO and SAC."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from behaviour_helpers import BOX, FOUR, PENDULUM, Noisy, noise_of
from check_helpers import check
from gymnasium import spaces

from forage.agents.actor_critic.sac import SAC
from forage.agents.policy_gradient.ppo import PPO
from forage.agents.policy_gradient.rollouts import score_actions
from forage.agents.q_learning.dqn import DQN
from forage.behaviours.held_noise import HeldNoise
from forage.config.ranges import check_ranges
from forage.core import prng
from forage.core.ports import ActInputs
from forage.core.types import ForageError, Spec
from forage.nn.state_noise import log_deviation, standardise_noise

SPEC = Spec("Two", BOX, spaces.Box(-1, 1, (2,)))
GSDE = {"hidden_sizes": (5,), "state_dependent_noise": True}
AGENTS = {"ppo": PPO(**GSDE), "sac": SAC(**GSDE)}


@pytest.mark.parametrize(("interval", "changes"), [(3, [3, 6, 9]), (1, range(1, 10)), (0, [])])
def test_noise_is_held_for_the_interval(interval, changes):
    noise = noise_of(HeldNoise(interval), Noisy(shape=(3, 2)), PENDULUM, 10, 2000)
    assert noise.shape == (2000, 10, 3, 2)
    moved = (noise[:, 1:] != noise[:, :-1]).reshape(2000, 9, -1)
    expected = np.isin(np.arange(1, 10), list(changes))
    np.testing.assert_array_equal(moved, np.broadcast_to(expected[:, None], moved.shape))
    for step in (0, 9):
        drawn = noise[:, step].reshape(-1)
        assert abs(drawn.mean()) < 0.05 and drawn.std() == pytest.approx(1.0, abs=0.04)


def test_operators():
    log_std = np.log([[0.5, 1.0], [2.0, 0.25], [1.0, 1.0]])
    features, noise = np.array([1.0, -0.5, 0.0]), np.array([[1.0, -2.0], [0.5, 4.0], [9.0, 9.0]])
    variance = np.array([0.5**2 + (0.5 * 2) ** 2, 1.0 + (0.5 * 0.25) ** 2])
    np.testing.assert_allclose(log_deviation(log_std, jnp.array(features)), 0.5 * np.log(variance), rtol=1e-4)
    change = np.array([1 * 0.5 * 1 - 0.5 * 2 * 0.5, 1 * 1 * -2 - 0.5 * 0.25 * 4])
    found = standardise_noise(log_std, jnp.array(features), jnp.array(noise))
    np.testing.assert_allclose(found, change / np.sqrt(variance), rtol=1e-4, atol=1e-6)
    gradient = jax.grad(lambda z: log_deviation(log_std, z).sum())(jnp.zeros(3))
    assert np.isfinite(gradient).all()  # features that are all zero


@pytest.mark.parametrize("name", AGENTS)
def test_the_action_is_the_mean_and_noise_that_is_linear_in_the_features(name):
    """And over all matrices it has the distribution that the agent learns from."""
    agent = AGENTS[name]
    assert agent.noise(SPEC) == (5, 2)
    observation = jnp.array([0.3, -0.8])

    @jax.jit
    def run(key):
        state = agent.init(key, SPEC)
        noise = jax.random.normal(key, (4000, 5, 2))
        act = jax.vmap(lambda noise: agent.act(state, ActInputs((), observation, key, True, noise))[0])
        if name == "ppo":
            network = state.network
            features = network.torso(0)(observation)
            mean, log_std, policy = network.actor(features), network.log_std, network.policy(features, observation)
        else:
            features = state.actor.torso(observation)
            mean, log_std = state.actor.head(features), state.actor.log_std
            policy = jax.tree.map(lambda x: x[0], state.actor(observation[None]))
        white = jax.vmap(lambda key: agent.act(state, ActInputs((), observation, key, True))[0])(
            jax.random.split(key, 4000)
        )
        return act(noise), white, noise, features, mean, log_std, policy

    action, white, noise, features, mean, log_std, policy = jax.device_get(run(prng.key(0)))
    changes = np.einsum("j,ji,nji->ni", features, np.exp(log_std), noise)
    squash, back = (np.asarray, np.asarray) if name == "ppo" else (np.tanh, np.arctanh)
    np.testing.assert_allclose(action, squash(mean + changes), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(policy.mean, mean, rtol=1e-5)
    deviation = np.sqrt(features**2 @ np.exp(log_std) ** 2 + 1e-6)
    np.testing.assert_allclose(np.exp(policy.log_std), deviation, rtol=1e-5)
    for sample in (action, white):
        np.testing.assert_allclose(back(sample).std(0), deviation, rtol=0.06)


@pytest.mark.thorough
def test_ppo_learns_the_size_of_the_noise_but_not_the_features_from_it():
    agent = AGENTS["ppo"]

    @jax.jit
    def run(key):
        network = agent.init(key, SPEC).network
        observation, action = jax.random.normal(key, (2, 7, 2))
        probability, entropy, _ = score_actions(network, observation, action, None)
        outputs, _ = network.rows(observation)
        gradient = jax.grad(lambda n: score_actions(n, observation, action, None)[1].sum())(network)
        return probability, entropy, outputs, action, gradient

    probability, entropy, outputs, action, gradient = jax.device_get(run(prng.key(0)))
    policy = scipy.stats.norm(outputs[:, :2], np.exp(outputs[:, 2:]))
    np.testing.assert_allclose(probability, policy.logpdf(action).sum(1), rtol=1e-4)
    np.testing.assert_allclose(entropy, policy.entropy().sum(1), rtol=1e-4)
    assert np.abs(gradient.log_std).min() > 0
    assert all(np.abs(leaf).max() == 0 for leaf in jax.tree.leaves(gradient.torsos))


def test_what_it_cannot_do():
    check(HeldNoise(), AGENTS["ppo"], SPEC)
    check(HeldNoise(), SAC(), PENDULUM)
    with pytest.raises(ForageError, match="DQN makes none from it in Four"):
        check(HeldNoise(), DQN(), FOUR)
    with pytest.raises(ForageError, match="interval of it is 0 or more, not -1"):
        check_ranges(HeldNoise(-1), "it")
    with pytest.raises(ForageError, match="Four has none"):
        check(replace(AGENTS["ppo"], num_envs=8), FOUR)
