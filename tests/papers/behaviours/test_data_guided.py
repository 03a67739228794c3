"""Noise learned from demonstrations: its likelihood, its direction, its fading, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import small
from check_helpers import check
from gymnasium import spaces

from forage.agents.actor_critic.td3 import TD3
from forage.agents.policy_gradient.ppo import PPO
from forage.core.ports import ActContext, HiddenState
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.data.demonstrations import Demonstrations
from forage_papers.behaviours.data_guided import DataGuided, Spread

SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-2.0, 2.0, (2,), np.float32))
AGENT = TD3(hidden_sizes=(8,), exploration_noise=0.0)


def show(action):
    """Return demonstrations of these actions, one a row."""
    rows = len(action)
    no, seen = np.zeros(rows, bool), np.zeros((rows, 3), np.float32)
    data = Experience(seen, np.asarray(action, np.float32), np.zeros(rows), seen, no, no, np.zeros(rows, np.int32), ())
    return Demonstrations("demos.npz", "", jax.tree.map(jnp.asarray, data))


def keep_still(agent):
    """Return the state of an agent with zero actions."""
    state = small.at_once(lambda: agent.init(jax.random.key(0), SPEC))
    return state._replace(actor=jax.tree.map(jnp.zeros_like, state.actor))


def test_the_likelihood_is_a_normal_distributions():
    spread = small.at_once(lambda: Spread(jax.random.key(0), SPEC, (4,)))
    seen, apart = np.array([0.3, -0.2, 1.0]), np.array([0.5, -0.1])
    factor = np.asarray(small.compute(spread, seen), float)
    assert factor[0, 1] == 0 and (np.diag(factor) > 0).all()
    right = scipy.stats.multivariate_normal([0, 0], factor @ factor.T).logpdf(apart) + np.log(2 * np.pi)
    np.testing.assert_allclose(small.compute(spread.log_probability, seen, apart), right, rtol=1e-4)


def test_it_is_fitted_to_what_demonstrations_do_beyond_the_policy_and_fades():
    """All push to the same end of the first number, +-1 in the unit box, and hardly differ in the second."""
    random = np.random.default_rng(0)
    action = np.stack([random.choice([-2.0, 2.0], 64), 0.02 * random.normal(size=64)], 1)
    part = DataGuided(show(action), hidden_sizes=(), rows=64, updates=400, learning_rate=0.02, fraction=0.5)
    state, keys = keep_still(AGENT), jax.random.split(jax.random.key(1), 300)

    def moment(at, key):
        return ActContext(AGENT, state, SPEC, Clock(jnp.int32(at), jnp.float32(100)), key)

    def act_out():
        fitted = part.report(part.init(keys[0], AGENT, SPEC), None, moment(0, keys[1]))
        act = lambda at: jax.vmap(  # noqa: E731
            lambda key: part.act(fitted, HiddenState(()), jnp.zeros(3), moment(at, key)).action
        )(keys)
        return fitted.spread(jnp.zeros(3)), act(0), act(50)

    factor, first, late = small.compute(act_out)
    np.testing.assert_allclose(factor[0, 0], 1.0, rtol=0.15)  # the deviation of what is always 1 away
    assert np.linalg.norm(factor[1]) < 0.1
    assert first[:, 0].std() > 1.0 and first[:, 1].std() < 0.2 and np.abs(first).max() <= 2.0
    np.testing.assert_allclose(late, 0.0, atol=1e-6)


def test_what_is_refused():
    part = DataGuided(show(np.zeros((4, 2))))
    with pytest.raises(ForageError, match="PPO learns only from actions that it chose itself"):
        check(part, PPO(), SPEC)
    discrete = Spec("Choice", SPEC.observation_space, spaces.Discrete(2))
    with pytest.raises(ForageError):
        check(part, AGENT, discrete)
