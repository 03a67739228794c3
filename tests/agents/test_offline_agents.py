"""Agents that learn from data sets: their losses by hand, and the fields that a data set gives them."""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from critic_helpers import inputs_of
from gymnasium import spaces

from forage.agents.actor_critic.base import CriticKeys, UpdateInputs
from forage.agents.actor_critic.offline.cal_ql import CalQL
from forage.agents.actor_critic.offline.cql import CQL, SampledActions
from forage.agents.actor_critic.offline.rebrac import ReBRAC
from forage.agents.actor_critic.offline.td3_bc import TD3BC
from forage.agents.offline.bc import BC
from forage.agents.offline.iql import IQL
from forage.agents.q_learning.discrete_bcq import DiscreteBCQ
from forage.agents.q_learning.discrete_cql import DiscreteCQL
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, ReturnRule, Spec
from forage.data import episodes
from forage.memory.dataset import OpenedDataSet

small.keep_compiled()
SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32))
CHOICES = Spec("Choices", SPEC.observation_space, spaces.Discrete(3))
CLOCK, KEY = Clock(jnp.int32(0), jnp.float32(100)), jax.random.key(0)
SLOPES, HEIGHTS = (2.0, -1.0), (1.0, 3.0)  # critics say 1 + 2 a and 3 - a, whatever is seen
TD3_BC = TD3BC(hidden_sizes=(2,), normalise_observation=False, policy_delay=1)
REBRAC = ReBRAC(hidden_sizes=(2,), critic_norm="none", critic_cloning=0.5, actor_cloning=0.25, discount=0.9)
CONSERVATIVE = {"hidden_sizes": (2,), "samples": 2, "conservatism": 3.0}


def q(action):
    return np.stack([height + slope * np.asarray(action) for slope, height in zip(SLOPES, HEIGHTS, strict=True)])


@functools.cache
def state_of(agent, output=0.5):
    """Return a state with critics and targets `q`, and a policy of mean `output`."""
    state = small.at_once(lambda: agent.init(KEY, SPEC))
    weight = np.zeros((2, 4, 2), np.float32)
    weight[:, 3] = [1.0, -1.0]  # relu(a) and relu(-a)
    last = np.array([[[slope], [-slope]] for slope in SLOPES], np.float32)
    where = lambda c: (c.body.layers[0].weight, c.body.layers[1].weight, c.body.layers[1].bias)  # noqa: E731
    zeros = jax.tree.map(np.zeros_like, state.critics)
    critics = equinox.tree_at(where, zeros, (weight, last, np.array([[height] for height in HEIGHTS], np.float32)))
    bias = np.zeros_like(state.actor.head.bias)
    bias[0] = math.atanh(output)
    actor = equinox.tree_at(lambda a: a.head.bias, jax.tree.map(np.zeros_like, state.actor), bias)
    state = state._replace(actor=actor, critics=critics, target_critics=critics)
    return jax.device_put(state._replace(target_actor=actor) if hasattr(state, "target_actor") else state)


def test_td3_bc_climbs_relative_to_the_values_size_and_imitates():
    state, action = state_of(TD3_BC), np.array([[0.1], [-0.5]], np.float32)
    given = inputs_of(jnp.zeros((2, 3)), action)
    (loss, _), gradient = small.compute(
        lambda actor: jax.value_and_grad(TD3_BC.actor_loss, has_aux=True)(actor, state, given), state.actor
    )
    distance = (0.4**2 + 1.0**2) / 2
    np.testing.assert_allclose(loss, distance - 2.5, rtol=1e-5)  # of the first critic, 2 here, over its own size
    slope = 2 * (0.4 + 1.0) / 2 - 2.5 * 2.0 / 2.0  # the size is held fixed
    np.testing.assert_allclose(gradient.head.bias, [slope * (1 - 0.5**2)], rtol=1e-5)


def test_rebracs_critics_pay_for_leaving_the_data():
    state = state_of(REBRAC)
    now = transitions([0.0, 0.0], [1.0, 2.0], terminated=[False, True])._replace(policy_info=np.array([[0.2], [0.2]]))
    inputs = UpdateInputs(now, now.action, np.ones(2), next_noise=jnp.zeros((2, 1)))
    target = small.compute(lambda: REBRAC.target(state, inputs))
    value = q(0.5).min() - 0.5 * 0.3**2
    np.testing.assert_allclose(target, [1 + 0.9 * value, 2.0], rtol=1e-5)
    loss, _ = small.compute(
        lambda: REBRAC.actor_loss(state.actor, state, inputs_of(jnp.zeros((2, 3)), jnp.array([[0.1], [0.1]])))
    )
    np.testing.assert_allclose(loss, 0.25 * 0.4**2 - 1.0, rtol=1e-5)  # the least critic over its own size


def test_rebracs_critics_pay_for_leaving_the_next_action():
    """Two transitions in a row: the first one's target is regularised towards the second one's action."""
    agent = dataclasses.replace(REBRAC, target_noise=0.0, learning_rate=0.0)
    two = [transitions([done], [5.0], [False], [False]) for done in (0.1, -0.9)]  # the target is above both critics
    state = state_of(agent)
    both = batch_of(jax.tree.map(lambda *x: jnp.stack(x), *two))
    error = small.compute(lambda: agent.learn(state, both, CLOCK, KEY)[2])
    target = 5 + 0.9 * (q(0.5).min() - 0.5 * (0.5 + 0.9) ** 2)
    np.testing.assert_allclose(error, [np.abs(q(0.1) - target).mean()], rtol=1e-5)


def test_rebrac_leaves_out_transitions_whose_next_action_nobody_knows():
    now = transitions([0.0, 0.0], [1.0, 2.0], truncated=[False, True])
    both = jax.tree.map(lambda x: jnp.stack([x, x]), now)
    state = state_of(REBRAC)
    error = small.compute(lambda: REBRAC.learn(state, batch_of(both), CLOCK, KEY)[2])
    assert error[0] > 0 and error[1] == 0


def transitions(action, reward, terminated=(False, False), truncated=(False, False), **more):
    number = len(reward)
    seen = np.zeros((number, 3), np.float32)
    action = np.asarray(action, np.float32).reshape(number, 1) if np.asarray(action).dtype.kind == "f" else action
    ends = np.asarray(terminated, bool), np.asarray(truncated, bool)
    reward = np.asarray(reward, np.float32)
    return jax.device_put(Experience(seen, action, reward, seen, *ends, np.zeros(number, np.int32), (), **more))


def batch_of(experience):
    number = experience.reward.shape[1]
    return Batch(experience, np.ones(number, np.float32), np.zeros(number, np.int32))


DRAWN = np.array([[-0.5, 0.2, 0.4, 0.6, 0.1, 0.9], [0.3, -0.2, 0.8, -0.4, 0.5, 0.7]])
DENSITY = np.array([[-0.7, -0.7, 0.1, 0.2, -0.3, 0.4], [-0.7, -0.7, 0.3, -0.2, 0.0, 0.5]])


@pytest.mark.parametrize("kind", [CQL, CalQL])
def test_the_gap_by_hand(kind):
    agent = kind(**CONSERVATIVE, value_sizes=())
    told = np.array([2.5, -9.0])
    now = transitions([0.4, -0.2], [0.0, 0.0], return_to_go=told)
    own = np.arange(6) >= 2
    sampled = SampledActions(DRAWN[..., None].astype(np.float32), DENSITY.astype(np.float32), own)
    target, weight = np.array([1.0, 2.0], np.float32), np.array([1.0, 0.5], np.float32)
    state, action = state_of(agent), np.array([[0.4], [-0.2]], np.float32)
    inputs = UpdateInputs(now, action, weight)
    loss, (_, gap) = small.compute(lambda: agent.conservative_loss(state.critics, state, inputs, target, sampled))
    values = q(DRAWN)
    if kind is CalQL:
        values = np.where(own, np.maximum(values, told[:, None]), values)
    pushed = np.log(np.exp(values - DENSITY).sum(-1))
    expected = (weight * (pushed - q([0.4, -0.2]))).mean(1)
    np.testing.assert_allclose(gap, expected, rtol=1e-5)
    squares = (weight * (q([0.4, -0.2]) - target) ** 2).mean(1).sum()
    np.testing.assert_allclose(loss, squares + 3.0 * expected.sum(), rtol=1e-5)


def test_cal_ql_begins_as_its_authors_program():
    # Their configuration says an entropy target of 0, for which their program takes -1 a dimension.
    assert CalQL().target_entropy == -1.0
    for kind, weight in ((CQL, 1.0), (CalQL, math.e)):
        agent = kind(**CONSERVATIVE, learn_conservatism=True)
        np.testing.assert_allclose(small.compute(lambda a=agent: a.weight(a.init(KEY, SPEC).log_weight)), weight, 1e-6)


def test_the_multiplier_grows_while_the_gap_is_above_its_target():
    now, keys = transitions([0.4, -0.2], [0.0, 0.0]), CriticKeys(sampled=KEY)
    after = {}
    for target_gap in (-50.0, 50.0):
        agent = CQL(**CONSERVATIVE, learn_conservatism=True, target_gap=target_gap)
        state = state_of(agent)
        inputs = UpdateInputs(now, now.action, np.ones(2, np.float32), (), np.zeros((2, 1), np.float32), keys)
        after[target_gap] = small.compute(lambda a=agent, s=state, x=inputs: a.evaluate(s, x)[0].log_weight)
    assert after[-50.0] > 0 > after[50.0]


def test_sampled_actions_have_their_densities():
    agent = CQL(**CONSERVATIVE)
    now, keys = transitions([0.4, -0.2], [0.0, 0.0]), CriticKeys(sampled=KEY)
    state = state_of(agent)
    inputs = UpdateInputs(now, now.action, np.ones(2), keys=keys)
    sampled = small.compute(lambda: agent.sample(state, inputs))
    assert sampled.action.shape == (2, 6, 1) and (np.abs(sampled.action) <= 1).all()
    np.testing.assert_allclose(sampled.log_density[:, :2], math.log(0.5), rtol=1e-6)
    u = np.arctanh(sampled.action[:, 2:, 0])  # normal about atanh(0.5), with deviation 1
    normal = -0.5 * (u - math.atanh(0.5)) ** 2 - 0.5 * math.log(2 * math.pi)
    np.testing.assert_allclose(sampled.log_density[:, 2:], normal - np.log(1 - np.tanh(u) ** 2), rtol=1e-3, atol=1e-3)


class Policy(NamedTuple):
    """A policy with the first number of its observation as its action, and the second as the density."""

    seen: Any = None

    def __call__(self, observation):
        return Policy(observation)

    def from_noise(self, noise):
        rows = jnp.broadcast_to(self.seen, (*noise.shape[:-1], self.seen.shape[-1]))
        return rows[..., :1] + 0.0 * noise, rows[..., 1]


@pytest.mark.parametrize("kind", [CQL, CalQL])
def test_actions_are_drawn_uniformly_then_at_s_then_at_what_follows(kind):
    """Two actions of each kind; Cal-QL bounds the policy's own four."""
    agent = kind(**CONSERVATIVE)
    state = state_of(agent)._replace(actor=Policy())
    now = transitions([0.4, -0.2], [0.0, 0.0], return_to_go=np.array([2.5, -9.0]))
    now = now._replace(
        observation=np.array([[0.3, -1.0, 0], [0.5, -2.0, 0]]),
        next_observation=np.array([[-0.7, 3.0, 0], [-0.9, 4.0, 0]]),
    )

    def find_results():
        sampled = agent.sample(state, UpdateInputs(now, now.action, np.ones(2), keys=CriticKeys(sampled=KEY)))
        return sampled, agent.gap_values(jnp.zeros((2, 2, 6)), sampled, now)

    sampled, bounded = small.compute(find_results)
    np.testing.assert_allclose(sampled.action[:, 2:, 0], [[0.3, 0.3, -0.7, -0.7], [0.5, 0.5, -0.9, -0.9]], rtol=1e-6)
    np.testing.assert_allclose(sampled.log_density[:, 2:], [[-1, -1, 3, 3], [-2, -2, 4, 4]])
    assert len(np.unique(sampled.action[:, :2])) == 4 and sampled.action[:, :2].min() < 0 < sampled.action[:, :2].max()
    least = [[0, 0, 2.5, 2.5, 2.5, 2.5], [0] * 6] if kind is CalQL else np.zeros((2, 6))
    np.testing.assert_allclose(bounded, [least, least])


def test_the_target_takes_the_best_of_many_actions():
    now = transitions([0.0, 0.0], [0.0, 0.0])
    noise, keys = np.full((2, 1), -9.0, np.float32), CriticKeys(sampled=KEY)
    one, many = (
        small.compute(
            lambda state, a=agent: a.target(state, UpdateInputs(now, now.action, np.ones(2), (), noise, keys)),
            state_of(agent),
        )
        for agent in (CQL(**CONSERVATIVE), CQL(**CONSERVATIVE, backup_samples=64))
    )
    np.testing.assert_allclose(one, 0.99 * q(-1.0).min(), rtol=1e-3)
    np.testing.assert_allclose(many, 0.99 * q(2 / 3), rtol=0.05)  # where the two critics meet, the least is greatest


def test_discrete_cql_adds_the_gap_to_double_q_learning():
    agent = DiscreteCQL(hidden_sizes=(4,), conservatism=2.0)
    plain = dataclasses.replace(agent, conservatism=0.0)
    network = small.at_once(lambda: agent.init(KEY, CHOICES)).network
    batch = batch_of(jax.tree.map(lambda x: x[None], transitions(np.array([0, 2]), [1.0, -1.0])))
    (loss, (_, told)), (without, _), values = small.compute(
        lambda n: (agent.loss(n, n, batch), plain.loss(n, n, batch), n.rows(jnp.zeros((2, 3)))), network
    )
    gap = (np.log(np.exp(values).sum(1)) - values[[0, 1], [0, 2]]).mean()
    np.testing.assert_allclose(told["gap"], gap, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(loss, without + 2 * gap, rtol=1e-4, atol=1e-6)


def test_discrete_bcq_considers_likely_actions_alone():
    agent = DiscreteBCQ(hidden_sizes=(4,), threshold=0.3, discount=0.5)
    state = small.at_once(lambda: agent.init(KEY, CHOICES))
    with_bias = lambda part, bias: equinox.tree_at(  # noqa: E731
        lambda p: p.layers[-1].bias, jax.tree.map(np.zeros_like, part), np.array(bias, np.float32)
    )
    network = equinox.tree_at(
        lambda n: (n.head, n.q.advantage),
        state.network,
        (with_bias(state.network.head, np.log([0.6, 0.3, 0.1])), with_bias(state.network.q.advantage, [1.0, 2.0, 9.0])),
    )
    state = state._replace(network=network, target=network)
    batch = batch_of(jax.tree.map(lambda x: x[None], transitions(np.array([0, 1]), [1.0, -1.0])))
    action, loss, error = small.compute(
        lambda s: (
            agent.act(s, ActInputs((), jnp.zeros(3), KEY, False))[0],
            *agent.loss(s.network, s.target, batch)[:2],
        ),
        state,
    )
    assert action == 1  # 0.3 / 0.6 is above the threshold, 0.1 / 0.6 is not
    found = error[0][0]
    np.testing.assert_allclose(found, [1 + 0.5 * 2 - 1, -1 + 0.5 * 2 - 2], rtol=1e-5)
    huber = np.mean([0.5 * 1.0, 2.0 - 0.5])
    rest = -np.log([0.6, 0.3]).mean() + 0.01 * (np.log([0.6, 0.3, 0.1]) ** 2).mean()
    np.testing.assert_allclose(loss, huber + rest, rtol=1e-5)


def test_returns_to_go_by_hand():
    reward = np.array([1.0, 2.0, 4.0, 3.0, -1.0])
    terminated, truncated = np.array([0, 1, 0, 0, 0], bool), np.array([0, 0, 0, 0, 1], bool)
    told = episodes.returns_to_go(reward, terminated, truncated, 0.5)
    np.testing.assert_allclose(told, [2.0, 2.0, 5.25, 2.5, -1.0])  # nothing follows what is cut
    endless = ReturnRule(endless=True)
    told = episodes.returns_to_go(reward, terminated, truncated, 0.5, endless)
    np.testing.assert_allclose(told, [2.0, 2.0, 5.0, 2.0, -2.0])  # after the last one, -1 goes on for ever
    with pytest.raises(ForageError, match="for ever have no bounded return at a discount of 1"):
        episodes.returns_to_go(reward, terminated, truncated, 1.0, endless)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (ReturnRule(), [2.0, 2.0, -1.5, -1.0, -0.5, 1.0, -1.0]),
        (ReturnRule(endless=True), [3.0, 4.0, -1.5, -1.0, 0.0, 2.0, -2.0]),
        (ReturnRule(failure_reward=-1.0), [2.0, 2.0, -2.0, -2.0, -0.5, 1.0, -2.0]),
    ],
)
def test_returns_of_what_is_cut_and_of_what_only_fails(rule, expected):
    """By hand, as in Cal-QL's program: [1, 2] cut, [-1, -1] ended, [-1, 1] cut, [-1] unfinished at the end."""
    reward = np.array([1.0, 2.0, -1.0, -1.0, -1.0, 1.0, -1.0])
    terminated, truncated = np.zeros((2, 7), bool)
    truncated[[1, 5]], terminated[3] = True, True
    found = episodes.returns_to_go(reward, terminated, truncated, 0.5, rule)
    np.testing.assert_allclose(found, expected)
    for agent, theirs in ((CalQL(), ReturnRule()), (CalQL(endless=True), ReturnRule(True)), (BC(), ReturnRule(True))):
        assert agent.return_rule == theirs
    assert CalQL(failure_reward=-1.0).return_rule.failure_reward == -1


def test_every_step_of_implicit_q_learning_by_hand():
    """Linear networks and plain descent, half-way through the run: an expectile of 0.99, and weights that are cut."""
    sizes = {"hidden_sizes": (), "value_sizes": (), "optimiser": "sgd", "learning_rate": 0.1, "polyak": 0.25}
    agent = IQL(**sizes, expectile=0.99, beta=2.0, most_weight=3.0, discount=0.5)
    state = small.at_once(lambda: agent.init(KEY, CHOICES))
    state = state._replace(target_critics=jax.tree.map(lambda x: 1 - 2 * x, state.critics))
    seen, after = np.random.default_rng(1).uniform(-1, 1, (2, 4, 3)).astype(np.float32)
    now = transitions(np.array([0, 1, 2, 1]), [1.0, -1.0, 2.0, 0.5], (False, True, False, False), (False,) * 4)
    now = now._replace(observation=seen, next_observation=after)
    weight = np.array([1.0, 0.5, 2.0, 1.0], np.float32)
    batch = Batch(jax.tree.map(lambda x: x[None], now), weight, np.arange(4))
    clock = Clock(jnp.int32(50), jnp.float32(100))
    learned, metrics, error = small.compute(lambda s: agent.learn(s, batch, clock, KEY), state)

    def values(critics):
        last = critics.body.layers[-1]
        pairs = np.concatenate([seen, np.eye(3)[[0, 1, 2, 1]]], 1)
        return pairs @ np.asarray(last.weight)[..., 0].T + np.asarray(last.bias)[:, 0]

    def value(network, observation):
        return (observation @ np.asarray(network.head.weight) + np.asarray(network.head.bias))[:, 0]

    # The value: nearly the highest of the targets' least
    recorded = values(state.target_critics).min(1)
    gap = recorded - value(state.value, seen)
    slope = weight * 2 * np.where(gap < 0, 0.01, 0.99) * gap / 4
    np.testing.assert_allclose(learned.value.head.bias, state.value.head.bias + 0.1 * slope.sum(), rtol=1e-4)
    np.testing.assert_allclose(
        learned.value.head.weight[:, 0], state.value.head.weight[:, 0] + 0.1 * slope @ seen, 1e-4
    )
    # The policy: clones by the exponent of what the new value says is better, at half the rate by half the run
    advantage = recorded - value(learned.value, seen)
    factor = np.minimum(np.exp(2 * advantage), 3.0)
    assert 0 < (factor == 3.0).sum() < 4 and metrics["clipped"] == (factor == 3.0).mean()
    head = state.policy.head
    logits = seen @ np.asarray(head.weight) + np.asarray(head.bias)
    chance = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    climb = (weight * factor)[:, None] * (np.eye(3)[[0, 1, 2, 1]] - chance) / 4
    np.testing.assert_allclose(learned.policy.head.bias, head.bias + 0.05 * climb.sum(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(learned.policy.head.weight, head.weight + 0.05 * seen.T @ climb, rtol=1e-4, atol=1e-6)
    # The critics: towards the reward and the new value of what follows
    target = np.array([1.0, -1.0, 2.0, 0.5]) + 0.5 * np.array([1, 0, 1, 1]) * value(learned.value, after)
    miss = values(state.critics) - target[:, None]
    np.testing.assert_allclose(error, np.abs(miss).mean(1), rtol=1e-4)
    moved = learned.critics.body.layers[-1].bias - state.critics.body.layers[-1].bias
    np.testing.assert_allclose(moved[:, 0], -0.1 * (weight[:, None] * miss).mean(0), rtol=1e-4)
    blended = 0.25 * learned.critics.body.layers[-1].bias + 0.75 * state.target_critics.body.layers[-1].bias
    np.testing.assert_allclose(learned.target_critics.body.layers[-1].bias, blended, rtol=1e-5)


def test_the_best_episodes_by_hand():
    reward = np.array([1.0, 1.0, 5.0, 0.0, 2.0, 2.0])
    ended = np.array([0, 1, 1, 0, 1, 1], bool)  # returns 2, 5, 2, 2
    np.testing.assert_array_equal(episodes.best_episodes(reward, ended, 0.5), [0, 1, 2])
    np.testing.assert_array_equal(episodes.best_episodes(reward, ended, 0.01), [2])


def test_a_data_set_is_prepared_for_its_agent():
    data = transitions(np.array([0, 1, 2]), [1.0, 2.0, 4.0], [False, True, True], [False] * 3)
    opened = OpenedDataSet("a.npz", "", jax.tree.map(jnp.asarray, data))
    paid = np.asarray(data.reward, float) / 2
    kept = opened.with_returns(BC(best=0.5, weighted=True, discount=0.5), paid).data
    np.testing.assert_allclose(kept.reward, [4.0])
    np.testing.assert_allclose(kept.return_to_go, [2.0])  # of what is learned from
    np.testing.assert_allclose(opened.with_returns(BC(weighted=True, discount=0.5), paid).data.return_to_go, [1, 1, 2])
    assert opened.with_returns(BC(), paid).data.return_to_go == ()


def test_bc_weighs_actions_by_what_came_of_them():
    agent = BC(hidden_sizes=(4,), weighted=True, beta=2.0, most_weight=3.0)
    state = small.at_once(lambda: agent.init(KEY, CHOICES))
    now = transitions(np.array([0, 1]), [0.0, 0.0], return_to_go=np.array([1.0, -2.0], np.float32))
    batch = batch_of(jax.tree.map(lambda x: x[None], now))
    (_, metrics, surprise), value = small.compute(
        lambda s: (agent.learn(s, batch, CLOCK, KEY), s.value(jnp.zeros((2, 3)))), state
    )
    advantage = now.return_to_go - value
    factor = np.minimum(np.exp(2 * advantage / np.sqrt((advantage**2).mean())), 3.0)
    np.testing.assert_allclose(metrics["policy_loss"], (factor * surprise).mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["value_loss"], 0.5 * (advantage**2).mean(), rtol=1e-5)


def test_observations_are_normalised_by_the_whole_data_set():
    agent = TD3BC(hidden_sizes=(4,))
    seen = np.random.default_rng(0).normal(3.0, [1.0, 2.0, 0.0], (50, 3)).astype(np.float32)
    data = transitions(np.zeros(50), np.zeros(50), np.zeros(50, bool), np.zeros(50, bool))._replace(observation=seen)
    norm = small.compute(lambda: agent.init_from_dataset(agent.init(KEY, SPEC), data)).norm
    found = small.compute(jax.vmap(norm), seen)
    np.testing.assert_allclose(found, (seen - seen.mean(0)) / (seen.std(0) + 1e-3), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("agent", "space", "others"),
    [
        (TD3BC(), spaces.Discrete(3), "discrete-cql, discrete-bcq or iql"),
        (DiscreteCQL(), spaces.Box(-1, 1, (2,)), "iql, td3-bc or cql"),
        (DiscreteCQL(), spaces.MultiDiscrete([2, 3]), "bc or iql"),
        (BC(), spaces.Box(-np.inf, np.inf, (2,)), "a data set that says how far its actions go"),
    ],
)
def test_names_agents_that_learn_from_such_data(agent, space, others):
    with pytest.raises(ForageError, match=f"try {others}."):
        check(agent, Spec("logs.csv", spaces.Box(-1, 1, (3,)), space))
