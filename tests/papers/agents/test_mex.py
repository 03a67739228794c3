"""MEX: its critics' loss by hand, the effect of optimism on them, and TD3 without it."""

import dataclasses
import functools
import math

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from critic_helpers import inputs_of
from gymnasium import spaces

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.td3 import TD3
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage_papers.agents.actor_critic.mex import MEX

SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32))
CLOCK, KEY = Clock(jnp.int32(0), jnp.float32(100)), jax.random.key(0)
AGENT = MEX(hidden_sizes=(8,), learning_rate=0.01, optimism=0.25)
TWIN = TD3(hidden_sizes=(8,), learning_rate=0.01)


@functools.cache
def beginning():
    return small.at_once(lambda: AGENT.init(KEY, SPEC))


@functools.cache
def linear():
    """Return critics with the values 1 + 2 a and 3 - a in all states."""

    def critic(constant, slope):
        weight = jnp.zeros((4, 2)).at[3].set(jnp.array([1.0, -1.0]))  # relu(a) and relu(-a)
        return weight, jnp.array([[slope], [-slope]]), jnp.array([constant])

    hidden, last, bias = jax.tree.map(lambda *x: np.stack(x), critic(1.0, 2.0), critic(3.0, -1.0))
    agent = dataclasses.replace(AGENT, hidden_sizes=(2,))
    shapes = jax.eval_shape(lambda: agent.init(KEY, SPEC)).critics
    critics = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
    where = lambda c: (c.body.layers[0].weight, c.body.layers[1].weight, c.body.layers[1].bias)  # noqa: E731
    return equinox.tree_at(where, critics, (hidden, last, bias))


def q(action):
    return np.array([1 + 2 * action, 3 - action])


@pytest.mark.parametrize("hope", ["policy", "contrast", "actions"])
def test_the_loss_by_hand(hope):
    agent = dataclasses.replace(AGENT, hope=hope)
    taken, policy, after, random = (np.array([x, x / 2]) for x in (0.4, -0.6, 0.2, -0.8))
    target, weight = np.array([1.5, -2.0]), np.array([1.0, 0.5])
    column = lambda x: np.asarray(x, jnp.float32)[:, None]  # noqa: E731
    inputs, others = inputs_of(jnp.zeros((2, 3)), column(taken), weight=weight), map(column, (policy, after, random))
    loss, (report, told) = jax.jit(agent.optimistic_loss)(
        linear(), inputs, jnp.asarray(target, jnp.float32), tuple(others)
    )
    rest = np.logaddexp(np.logaddexp(q(taken), q(after)), q(random))
    hopes = {"policy": q(policy), "contrast": q(policy) - rest, "actions": q(taken)}[hope]
    squares = (weight * (q(taken) - target) ** 2).mean(1).sum()
    np.testing.assert_allclose(loss, squares - 0.25 * (weight * hopes).mean(1).sum(), rtol=1e-5)
    np.testing.assert_allclose(told, (weight * hopes).mean(1).sum() / 2, rtol=1e-5)
    np.testing.assert_allclose(report.error, np.abs(q(taken) - target).mean(0), rtol=1e-5)


def batch_of(action, reward):
    number = len(reward)
    observation, no = np.zeros((1, number, 3)), np.zeros((1, number), bool)
    experience = Experience(
        observation, jnp.asarray(action, jnp.float32).reshape(1, number, 1), jnp.asarray(reward, jnp.float32)[None],
        observation, ~no, no, jnp.zeros((1, number), jnp.int32), (),
    )  # fmt: skip
    return jax.device_put(Batch(experience, np.ones(number), np.zeros(number, jnp.int32)))


@pytest.mark.thorough
def test_without_optimism_it_is_td3():
    """Its squares are not halved, but Adam's steps are the same."""
    agent = dataclasses.replace(AGENT, optimism=0.0)
    batch = batch_of([0.3, -0.4], [1.0, 2.0])

    @jax.jit
    def run_both(state):
        now = jax.tree.map(lambda x: x[0], batch.experience)
        inputs = UpdateInputs(now, now.action, batch.weight)
        gradient, _ = jax.grad(TWIN.critic_loss, has_aux=True)(state.critics, inputs, jnp.array([1.0, 2.0]))
        return agent.learn(state, batch, CLOCK, KEY)[0], TWIN.step(state, gradient, inputs)

    mine, theirs = run_both(beginning())
    near = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)  # noqa: E731
    jax.tree.map(near, (mine.actor, mine.critics), (theirs.actor, theirs.critics))


@functools.cache
def run_learn(hope):
    """Return the first critic's values of the memory's action, 0.5 with reward 0, and of the policy's action."""
    agent = dataclasses.replace(AGENT, hope=hope, policy_delay=1000)
    batch = batch_of([0.5] * 8, [0.0] * 8)

    @jax.jit
    def run(state):
        fixed = (0 * state.actor.head.weight, jnp.array([math.atanh(-0.9)]))
        state = state._replace(actor=equinox.tree_at(lambda a: (a.head.weight, a.head.bias), state.actor, fixed))

        def update(state, key):
            return agent.learn(state, batch, CLOCK, key)[0], None

        state = jax.lax.scan(update, state, jax.random.split(KEY, 400))[0]
        first = jax.tree.map(lambda x: x[0], state.critics)
        return first(jnp.zeros((2, 3)), jnp.array([[0.5], [-0.9]]))

    return np.asarray(run(beginning()))


@pytest.mark.thorough
def test_hope_raises_what_the_data_does_not_hold():
    held, free = run_learn("policy")
    assert abs(held) < 0.3 and free > 3  # without an end: no data speaks of the policy's action
    # Of the memory's own action, (Q - 0)^2 - 0.25 Q is least at 0.125.
    np.testing.assert_allclose(run_learn("actions")[0], 0.125, atol=0.02)
    held, contrast = run_learn("contrast")
    assert held < contrast < free


def test_acts_as_td3_does():
    state = beginning()
    for explore in (True, False):
        mine, theirs = (a.act(state, ActInputs((), jnp.ones(3), KEY, explore))[0] for a in (AGENT, TWIN))
        np.testing.assert_array_equal(mine, theirs)
    assert AGENT.noise(SPEC) == (1,)


def test_what_it_cannot_do():
    with pytest.raises(ForageError, match="hope of MEX is one of policy, contrast, actions"):
        MEX(hope="luck")
    with pytest.raises(ForageError, match="MEX needs a continuous, bounded action space"):
        check(AGENT, Spec("CartPole-v1", SPEC.observation_space, spaces.Discrete(2)))
