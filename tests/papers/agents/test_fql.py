"""Flow Q-learning: its update by hand, and its actions on data with two modes."""

import dataclasses
import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from critic_helpers import inputs_of
from gymnasium import spaces

from forage.agents.actor_critic.base import CriticKeys
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.critics import each_value
from forage_papers.agents.actor_critic.offline.fql import FQL

small.keep_compiled()
KEY, CLOCK = jax.random.key(0), Clock(jnp.int32(0), jnp.float32(100))
LINE = Spec("Line", spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Box(-2.0, 2.0, (1,), np.float32))
TINY = FQL(hidden_sizes=(4,), critic_norm="none", alpha=3.0, flow_steps=2, discount=0.9, learning_rate=0.1)


def constant(network, value):
    """Return the network with this constant output."""
    last = lambda n: (n.body.layers[-1].weight, n.body.layers[-1].bias)  # noqa: E731
    return equinox.tree_at(last, network, replace_fn=lambda x: jnp.zeros_like(x) + (value if x.ndim == 1 else 0))


@functools.cache
def state_of(agent=TINY, policy=0.4, flow=-0.5):
    """Critics that say 1 and 3, and a policy and a flow that go the same way everywhere."""

    def make():
        state = agent.init(KEY, LINE)
        each = jax.vmap(constant)(state.critics, jnp.array([1.0, 3.0]))
        return state._replace(
            critics=each, target_critics=each, actor=constant(state.actor, policy), flow=constant(state.flow, flow)
        )

    return small.at_once(make)


SEEN = np.zeros((3, 2), np.float32)


@pytest.mark.parametrize(("target", "expected"), [("mean", 2.0), ("least", 1.0)])
def test_its_targets_by_hand(target, expected):
    agent = dataclasses.replace(TINY, target_value=target)
    found = small.compute(lambda s: agent.next_value(s.target_critics, SEEN, SEEN[:, :1], CriticKeys()), state_of())
    np.testing.assert_allclose(found, expected)


def test_its_policy_loss_by_hand():
    noise = np.array([[0.2], [-0.8], [1.6]], np.float32)

    def work_out(state):
        imitated = TINY.flow_to_end(state.flow, SEEN, noise)
        arguments = state.actor, state, inputs_of(SEEN, noise=noise, counts=jnp.array([True, True, False])), imitated
        plain = TINY.actor_loss(*arguments)
        return imitated, plain, dataclasses.replace(TINY, normalise_value=True).actor_loss(*arguments)

    imitated, plain, normalised = small.compute(work_out, state_of())
    np.testing.assert_allclose(imitated[:, 0], [-0.3, -1.0, 1.0], rtol=1e-5)  # noise - 0.5, cut to the unit box
    distance = (0.7**2 + 1.4**2) / 2
    np.testing.assert_allclose([plain, normalised], [3 * distance - 2.0, 3 * distance - 1.0], rtol=1e-5)


@pytest.mark.parametrize(("target", "of"), [("mean", np.mean), ("least", np.min)])
def test_targets_are_of_what_the_policy_does_next(target, of):
    """The slow critics value, at s', the policy's own action from noise, and not the flow's; an end has value 0."""
    agent = FQL(hidden_sizes=(), critic_norm="none", discount=0.9, target_value=target, learning_rate=0.0)

    def make():
        state = agent.init(KEY, LINE)
        return state._replace(target_critics=jax.tree.map(lambda x: 0.5 - 2 * x, state.critics))

    seen, after = np.random.default_rng(0).uniform(-1, 1, (2, 3, 2)).astype(np.float32)
    action, ends = np.array([[0.4], [-1.6], [1.0]], np.float32), np.array([[False, True, False]])
    now = Experience(
        seen[None], action[None], np.array([[1, 2, 3]], np.float32), after[None], ends, ~ends, ends * 0, ()
    )
    state = small.at_once(make)
    batch = Batch(now, np.ones(3, np.float32), np.zeros(3, np.int32))
    error = small.compute(lambda s: agent.learn(s, batch, CLOCK, KEY)[2], state)

    def linear(layer, *inputs):
        return np.concatenate(inputs, 1) @ np.asarray(layer.weight) + np.asarray(layer.bias)

    noise = jax.random.normal(jax.random.split(KEY, 3)[0], (3, 1))
    following = np.clip(linear(state.actor.body.layers[-1], after, noise), -1, 1)
    each = lambda critics, *inputs: np.stack([  # noqa: E731
        linear(jax.tree.map(lambda x, i=i: x[i], critics.body.layers[-1]), *inputs)[:, 0] for i in (0, 1)
    ])  # fmt: skip
    value = of(each(state.target_critics, after, following), axis=0)
    expected = np.abs(each(state.critics, seen, action / 2) - [1, 2, 3] - 0.9 * ~ends[0] * value).mean(0)
    np.testing.assert_allclose(error, expected, rtol=1e-4)


def test_an_update_moves_each_network_by_its_own_loss():
    """One step of Adam has the length of the learning rate, up or down: the sign of a bias's change is that of its
    gradient.
    """
    action = np.array([[1.6], [1.6], [1.6]], np.float32)  # 0.8 in the unit box
    flags = np.zeros((1, 3), bool)
    now = Experience(
        SEEN[None], action[None], np.full((1, 3), 10, np.float32), SEEN[None], ~flags, flags, flags * 0, ()
    )
    batch = Batch(now, np.ones(3, np.float32), np.zeros(3, np.int32))
    before = state_of(flow=0.0)
    after, metrics, error = small.compute(lambda s: TINY.learn(s, batch, CLOCK, KEY), before)
    moved = lambda name: (  # noqa: E731
        getattr(after, name).body.layers[-1].bias - getattr(before, name).body.layers[-1].bias
    )
    np.testing.assert_allclose(moved("critics")[:, 0], 0.1, rtol=1e-3)  # towards the reward, all that is to come
    np.testing.assert_allclose(metrics["critic_loss"], (9**2 + 7**2) / 2, rtol=1e-4)
    np.testing.assert_allclose(error, 8, rtol=1e-4)
    np.testing.assert_allclose(moved("target_critics")[:, 0], 0.1 * 0.005, rtol=1e-2)
    noise = jax.random.normal(jax.random.split(KEY, 3)[2], (3, 1))
    towards = np.sign(np.clip(noise, -1, 1).mean() - 0.4)
    np.testing.assert_allclose(moved("actor"), 0.1 * towards, rtol=1e-3)  # critics say the same of all actions
    assert after.updates == 1 and np.abs(moved("flow")) > 0.09


def test_it_draws_what_it_does():
    agent = dataclasses.replace(TINY, hidden_sizes=(8,))
    state = small.at_once(lambda: agent.init(KEY, LINE))
    draw = jax.vmap(lambda key: agent.act(state, ActInputs((), jnp.zeros(2), key, False))[0])
    found = small.compute(draw, jax.random.split(KEY, 50))
    assert len(np.unique(found)) > 10 and (np.abs(found) <= 2).all()
    for wrong in ({"target_value": "most"}, {"quantiles": 5}, {"target_subset": 1}):
        with pytest.raises(ForageError):
            dataclasses.replace(TINY, **wrong)


NUMBER = 256
TAKEN = np.where(np.arange(NUMBER) % 2, 1.4, -1.4) + 0.1 * np.random.default_rng(0).normal(size=NUMBER)


def draw_case(reward, alpha=10.0):
    """Return 200 actions of a policy that learned from two kinds of actions, and its values of them."""
    agent = FQL(hidden_sizes=(64, 64), learning_rate=2e-3, alpha=alpha, polyak=0.05)
    once, ends = np.zeros((1, NUMBER, 2), np.float32), np.ones((1, NUMBER), bool)
    taken = TAKEN.astype(np.float32)[None, :, None]
    told = Experience(once, taken, np.float32(reward)[None], once, ends, ~ends, ends.astype(np.int32), ())
    batch = jax.device_put(Batch(told, np.ones(NUMBER, np.float32), np.zeros(NUMBER, np.int32)))

    def run():
        update = lambda i, s: agent.learn(s, batch, CLOCK, jax.random.key(i))[0]  # noqa: E731
        state = jax.lax.fori_loop(0, 1500, update, agent.init(KEY, LINE))
        act = jax.vmap(lambda key: agent.act(state, ActInputs((), jnp.zeros(2), key, False))[0])
        found = act(jax.random.split(KEY, 200))
        return found[:, 0], each_value(state.critics, jnp.zeros((200, 2)), found / 2).mean(0)

    return small.compute(run)


@pytest.mark.thorough
def test_it_takes_both_good_actions_and_few_between():
    found, value = draw_case(np.ones(NUMBER))
    low, high = (np.abs(found - mode) < 0.5 for mode in (-1.4, 1.4))
    # One step is continuous in the noise, so that a few lie between; the mean of the data is nobody's action.
    assert (low | high).mean() > 0.8 and low.mean() > 0.25 and high.mean() > 0.25
    assert abs(value.mean() - 1) < 0.1


@pytest.mark.thorough
def test_it_takes_the_better_kind_of_action():
    found, value = draw_case(np.where(TAKEN > 0, 1.0, 0.0), alpha=0.1)
    assert (np.abs(found - 1.4) < 0.6).mean() > 0.9 and abs(value.mean() - 1) < 0.2
