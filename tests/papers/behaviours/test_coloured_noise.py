"""Pink and Ornstein-Uhlenbeck noise: variance, spectrum, correlations, and refusals."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from behaviour_helpers import FOUR, PENDULUM, Noisy, at, begin, noise_of
from check_helpers import check

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.behaviours.ornstein_uhlenbeck import OrnsteinUhlenbeck
from forage.config.ranges import check_ranges
from forage.core.ports import ActContext, ActInputs
from forage.core.types import ForageError
from forage_papers.behaviours.pink import Pink

TEN = replace(PENDULUM, horizon=10)


def covariance(exponent, length):
    """Of signal values k steps apart, k = 0, 1, ...: its power at each frequency times a cosine."""
    frequency = np.fft.fftfreq(length)
    power = np.maximum(np.abs(frequency), 1 / length) ** -exponent
    return np.array([np.sum(power * np.cos(2 * np.pi * frequency * k)) for k in range(length)]) / power.sum()


@pytest.mark.parametrize(("exponent", "length"), [(0.0, 8), (1.0, 8), (1.0, 9), (2.0, 12)])
def test_signals_have_the_covariance_of_their_spectrum(exponent, length):
    behaviour = Pink(exponent)
    draw = jax.jit(jax.vmap(lambda key: behaviour.signal(key, length, 2)))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 20_000)))
    assert drawn.shape == (20_000, length, 2)
    expected = covariance(exponent, length)
    assert expected[0] == pytest.approx(1.0)
    lags = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
    for entry in range(2):
        found = np.cov(drawn[..., entry].T, bias=True)
        np.testing.assert_allclose(found, expected[lags], atol=0.05)
    assert np.abs(np.mean(drawn[..., 0][:, :, None] * drawn[..., 1][:, None], 0)).max() < 0.04  # one by itself


def test_pink_noise_falls_as_one_over_f():
    drawn = np.asarray(jax.vmap(lambda key: Pink().signal(key, 512))(jax.random.split(jax.random.key(0), 300)))
    power = np.mean(np.abs(np.fft.rfft(drawn)) ** 2, 0)[1:256]
    slope = np.polyfit(np.log(np.arange(1, 256)), np.log(power), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.03)


@pytest.mark.thorough
def test_each_episode_has_a_signal_and_a_long_one_several():
    noise = noise_of(Pink(exponent=2.0), Noisy(), TEN, 25, 4000)
    expected = covariance(2.0, 10)
    for first in (0, 10):
        found = np.einsum("nte,nse->ts", noise[:, first : first + 10], noise[:, first : first + 10]) / 8000
        np.testing.assert_allclose(found, expected[np.abs(np.subtract.outer(range(10), range(10)))], atol=0.08)
    across = np.einsum("nte,nse->ts", noise[:, :10], noise[:, 10:20]) / 8000
    assert np.abs(across).max() < 0.08
    assert np.abs(noise[:, 20:] - noise[:, :5]).min(axis=(1, 2)).max() > 1e-3  # and never the same again
    matrix = noise_of(Pink(length=4), Noisy(shape=(3, 2)), PENDULUM, 6, 5)
    assert matrix.shape == (5, 6, 3, 2)


def test_ornstein_uhlenbeck_noise_is_stationary_and_decays():
    noise = noise_of(OrnsteinUhlenbeck(reversion=0.25), Noisy(), PENDULUM, 12, 20_000)
    found = np.einsum("nte,nse->ts", noise, noise) / 40_000
    np.testing.assert_allclose(found, 0.75 ** np.abs(np.subtract.outer(range(12), range(12))), atol=0.03)
    white = noise_of(OrnsteinUhlenbeck(reversion=1.0), Noisy(), PENDULUM, 2, 20_000)
    assert abs(np.mean(white[:, 0] * white[:, 1])) < 0.03


def test_what_they_cannot_do():
    check(Pink(), PPO(), TEN)
    check(Pink(length=100), Noisy(), PENDULUM)
    for behaviour in (Pink(), OrnsteinUhlenbeck()):
        for agent in (DQN(), PPO()):
            with pytest.raises(ForageError, match=f"{type(agent).__name__} makes none from it in Four; sac, td3 and"):
                check(behaviour, agent, FOUR)
    with pytest.raises(ForageError, match=r"no limit of steps.*behaviour\.length=1000 works"):
        check(Pink(), PPO(), PENDULUM)
    with pytest.raises(ForageError, match="2 steps or more, or 0"):
        Pink(length=1)
    with pytest.raises(ForageError, match="reversion of it is above 0 and at most 1, not 0"):
        check_ranges(OrnsteinUhlenbeck(reversion=0), "it")


def test_what_acts_is_the_agents_policy_with_this_noise():
    agent, spec = PPO(hidden_sizes=(4,)), replace(PENDULUM, horizon=5)

    def run(key):
        state, behaviour = agent.init(key, spec), Pink()
        moment = ActContext(agent, state, spec, at(0.0), key)
        action, (_, after), *_ = behaviour.act((), begin(behaviour, agent, spec), jnp.ones(2), moment)
        return action, agent.act(state, ActInputs((), jnp.ones(2), key, True, after.noise[0]))[0], after

    action, expected, after = jax.jit(run)(jax.random.key(0))
    np.testing.assert_array_equal(action, expected)
    assert after.time == 1 and after.noise.shape == (5, 1) and np.abs(after.noise).min() > 0
