"""Truncated quantile critics against numbers worked by hand: the target, the critics' loss, and refusals."""

import math

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from critic_helpers import inputs_of
from gymnasium import spaces
from small import at_once, compute

from forage.agents.actor_critic.td3 import TD3
from forage.agents.actor_critic.tqc import TQC
from forage.core.types import Batch, Clock, Experience, Spec

SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32))
SMALL = {"discount": 0.5, "polyak": 0.1, "hidden_sizes": (4,), "value_sizes": (4,)}
AGENT = TQC(**SMALL, critics=2, quantiles=2, dropped_quantiles=1, initial_temperature=0.5)


def constant(critics, quantiles):
    """Return critics with these constant quantiles."""
    where = lambda c: c.body.layers[-1].bias  # noqa: E731
    return equinox.tree_at(where, jax.tree.map(jnp.zeros_like, critics), jnp.asarray(quantiles))


def test_an_update_by_hand():
    state = at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    state = state._replace(
        actor=jax.tree.map(jnp.zeros_like, state.actor),  # the action tanh(e), e ~ N(0, 1)
        critics=constant(state.critics, [[0.0, 2.0], [1.0, 1.0]]),
        target_critics=constant(state.target_critics, [[8.0, 2.0], [4.0, 6.0]]),
    )
    noise = np.array([[0.0], [0.7]])
    log_probability = -0.5 * noise[:, 0] ** 2 - 0.5 * math.log(2 * math.pi) - np.log(1 - np.tanh(noise[:, 0]) ** 2)
    # Of 2, 4, 6 and 8 two remain, one for each critic; the second transition ends its task.
    soft = np.array([[2.0], [4.0]]) - 0.5 * log_probability
    target = np.array([1.0, 3.0]) + 0.5 * np.where([False, True], 0.0, soft)
    reward, ended, weight = np.array([1.0, 3.0]), np.array([False, True]), np.array([2.0, 1.0])
    inputs = inputs_of(np.zeros((2, 3)), reward=reward, terminated=ended, weight=weight, next_noise=noise)
    found = compute(AGENT.target, state, inputs)
    np.testing.assert_allclose(found, target, rtol=1e-5)

    def error(theta, share, y):
        u = y - theta
        return np.mean(np.abs(share - (u < 0)) * np.where(np.abs(u) < 1, u**2 / 2, np.abs(u) - 0.5))

    each = [
        [np.mean([error(theta, share, target[:, row]) for theta, share in zip(critic, (0.25, 0.75), strict=True)])
         for row in range(2)]
        for critic in ((0.0, 2.0), (1.0, 1.0))
    ]  # fmt: skip
    loss, (off, _, value, _) = compute(AGENT.critic_loss, state.critics, inputs, found)
    np.testing.assert_allclose(loss, np.sum(np.mean(weight * np.array(each), axis=1)), rtol=1e-5)
    np.testing.assert_allclose(off, np.abs(1 - target.mean(0)), rtol=1e-5)  # both critics' means are 1
    assert value == 1.0
    # The policy climbs the mean of all quantiles, the largest too.
    climbed = compute(AGENT.policy_value, state.target_critics, np.zeros((2, 3)), np.zeros((2, 1)))
    np.testing.assert_allclose(climbed, 5.0)


def test_td3_learns_quantiles_too():
    agent = TD3(**SMALL, quantiles=3, dropped_quantiles=1)
    state = at_once(lambda: agent.init(jax.random.key(0), SPEC))
    now = Experience(
        np.zeros((1, 2, 3)), np.zeros((1, 2, 1)), np.ones((1, 2)), np.zeros((1, 2, 3)), np.zeros((1, 2), bool),
        np.zeros((1, 2), bool), np.zeros((1, 2), np.int32), (),
    )  # fmt: skip
    batch = Batch(jax.tree.map(lambda x: jnp.asarray(x, jnp.float32 if x.dtype == float else x.dtype), now),
                  np.ones(2), np.arange(2))  # fmt: skip
    new, metrics, error = compute(agent.learn, state, batch, Clock(np.int32(0), np.float32(9)), jax.random.key(1))
    assert error.shape == (2,) and np.isfinite(metrics["critic_loss"]) and metrics["critic_loss"] > 0
    moved = jax.tree.map(lambda a, b: float(np.abs(a - np.asarray(b)).max()), new.critics, state.critics)
    assert max(jax.tree.leaves(moved)) > 0
