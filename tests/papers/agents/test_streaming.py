"""Streaming agents: their updates, traces, statistics and first weights by hand, and refusals."""

import dataclasses
import math

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces
from small import at_once, compute

from forage.core.types import AGENT, PERSON, Batch, Clock, Experience, ForageError, Spec
from forage.nn.layers import Linear
from forage_papers.agents.streaming.base import RewardScale, sparse_linear
from forage_papers.agents.streaming.stream_ac import StreamAC, log_softplus
from forage_papers.agents.streaming.stream_q import StreamQ

SPEC = Spec("Plane", spaces.Box(-9.0, 9.0, (2,), np.float32), spaces.Discrete(2))
CLOCK, KEY = Clock(jnp.int32(0), jnp.float32(100)), jax.random.key(0)
PLAIN = {"normalise_observation": False, "scale_reward": False, "hidden_sizes": ()}  # a linear function of what is seen
HALVES = PLAIN | {"discount": 0.5, "trace_lambda": 0.5}
Q = StreamQ(**HALVES)
AC = StreamAC(**HALVES, entropy_coefficient=0.1)
WEIGHT = np.array([[0.2, 0.1], [0.3, 0.4]], np.float32)


def step(observation, action, reward, after, terminated=False, truncated=False, source=AGENT):
    """A batch of one transition."""
    one = Experience(
        np.float32(observation), np.int32(action), np.float32(reward), np.float32(after), np.bool_(terminated),
        np.bool_(truncated), np.int32(source), (),
    )  # fmt: skip
    return Batch(jax.tree.map(lambda x: x[None, None], one), np.ones(1, np.float32), np.arange(1))


def linear(network, weight):
    """The network with these weights of its only layer, and no bias."""
    where = lambda n: (n.layers[0].weight, n.layers[0].bias)  # noqa: E731
    return equinox.tree_at(where, network, (np.float32(weight), np.zeros(np.shape(weight)[1], np.float32)))


@pytest.fixture(scope="module")
def start():
    state = at_once(lambda: Q.init(KEY, SPEC))
    return state._replace(network=linear(state.network, WEIGHT))


@pytest.fixture(scope="module")
def learn():
    return jax.jit(lambda state, batch: Q.learn(state, batch, CLOCK, KEY))


def test_stream_q_by_hand(start, learn):
    # The greedy action: delta = 1 + 0.5 * 0.4 - 0.2 = 1, z is 1 in two places, and the step 1 / (2 * 1 * 2)
    state, metrics, error = learn(start, step((1, 0), 0, 1, (0, 1)))
    layer = state.network.layers[0]
    np.testing.assert_allclose(error, [1.0], rtol=1e-6)
    np.testing.assert_allclose(metrics["step"], 0.25, rtol=1e-6)
    np.testing.assert_allclose(layer.weight, WEIGHT + np.array([[0.25, 0], [0, 0]]), rtol=1e-6)
    np.testing.assert_allclose(layer.bias, [0.25, 0], rtol=1e-6)

    # Not the greedy one, for 0.55 > 0.4: delta = 0.5 * 1 - 0.4, z is a quarter of the old and the new, its size 2.5
    state, metrics, error = learn(state, step((0, 1), 1, 0, (1, 1)))
    layer = state.network.layers[0]
    np.testing.assert_allclose(error, [0.1], rtol=1e-5)
    np.testing.assert_allclose(metrics["step"], 1 / (2 * 2.5), rtol=1e-6)
    np.testing.assert_allclose(layer.weight, WEIGHT + np.array([[0.255, 0], [0, 0.02]]), rtol=1e-5)
    np.testing.assert_allclose(layer.bias, [0.255, 0.02], rtol=1e-5)
    assert not any(np.any(z) for z in jax.tree.leaves(state.trace.trace))  # what was random ends the trace


@pytest.mark.parametrize(
    ("ends", "error", "kept"),
    [
        ({}, 1 + 0.5 * 0.4 - 0.2, True),
        ({"truncated": True}, 1 + 0.5 * 0.4 - 0.2, False),  # the trace ends, the value of what followed counts
        ({"terminated": True}, 1 - 0.2, False),
    ],
)
def test_ends_of_episodes(start, learn, ends, error, kept):
    state, _, found = learn(start, step((1, 0), 0, 1, (0, 1), **ends))
    np.testing.assert_allclose(found, [error], rtol=1e-6)
    assert any(np.any(z) for z in jax.tree.leaves(state.trace.trace)) == kept
    assert bool(state.statistics.begins) != kept
    lost = Q.truncate(state)
    assert bool(lost.statistics.begins)
    assert not any(np.any(z) for z in jax.tree.leaves(lost.trace.trace))


def test_stream_ac_by_hand():
    state = at_once(lambda: AC.init(KEY, SPEC))
    state = state._replace(actor=linear(state.actor, WEIGHT), critic=linear(state.critic, [[0.5], [1.0]]))
    learn = jax.jit(lambda state, batch: AC.learn(state, batch, CLOCK, KEY))
    x, after = np.array([1.0, 2.0]), np.array([2.0, 0.0])
    delta = -3 + 0.5 * 1.0 - 2.5  # V(s) = 0.5 + 2, V(s') = 1
    logits = x @ WEIGHT
    p = np.exp(logits) / np.exp(logits).sum()
    entropy = -(p * np.log(p)).sum()
    upward = np.array([0, 1]) - p + 0.1 * np.sign(delta) * -p * (np.log(p) + entropy)  # by logits, the action being 1
    later, metrics, error = learn(state, step(x, 1, -3, after))
    np.testing.assert_allclose(error, [5.0], rtol=1e-6)
    np.testing.assert_allclose(metrics["entropy"], entropy, rtol=1e-5)

    size = np.abs(upward).sum() * (np.abs(x).sum() + 1)  # of weights and biases
    stepped = 1 / max(1, 3 * 5 * size) * delta
    np.testing.assert_allclose(later.actor.layers[0].weight, WEIGHT + stepped * np.outer(x, upward), rtol=1e-5)
    np.testing.assert_allclose(later.actor.layers[0].bias, stepped * upward, rtol=1e-5)
    stepped = 1 / (2 * 5 * 4) * delta
    np.testing.assert_allclose(later.critic.layers[0].weight[:, 0], [0.5, 1] + stepped * x, rtol=1e-5)

    # Somebody else's action teaches the critic alone
    theirs, _, _ = learn(state, step(x, 1, -3, after, source=PERSON))
    np.testing.assert_array_equal(theirs.actor.layers[0].weight, WEIGHT)
    np.testing.assert_array_equal(theirs.critic.layers[0].weight, later.critic.layers[0].weight)


def test_observations_are_normalised_by_what_was_seen_until_then():
    agent = StreamQ(**(HALVES | {"normalise_observation": True}))
    seen = [np.array(x, np.float32) for x in ((1, 5), (3, 5), (2, 8), (0, 1), (4, 4))]
    ways = [
        (seen[0], seen[1], False),
        (seen[1], seen[2], True),
        (seen[3], seen[4], False),
    ]  # an episode ends, one begins
    statistics, rows = agent.statistics(SPEC), []
    for now, after, ended in ways:
        found, statistics = compute(agent.transition, statistics, step(now, 0, 0, after, terminated=ended))
        rows.append(found)

    def by_hand(x, number):
        so_far = np.array(seen[:number])
        return (x - so_far.mean(0)) / np.sqrt(so_far.var(0) + 1e-8)

    np.testing.assert_allclose(rows[0].observation, [0, 0], atol=1e-5)  # the first of all is its own mean
    np.testing.assert_allclose(rows[0].next_observation, by_hand(seen[1], 2), atol=1e-4)
    np.testing.assert_allclose(rows[1].observation, by_hand(seen[1], 2), atol=1e-4)
    np.testing.assert_allclose(rows[1].next_observation, by_hand(seen[2], 3), atol=1e-4)
    np.testing.assert_allclose(rows[2].observation, by_hand(seen[3], 4), atol=1e-4)
    np.testing.assert_allclose(rows[2].next_observation, by_hand(seen[4], 5), atol=1e-4)


def test_rewards_are_scaled_by_the_deviation_of_their_sums():
    scale, sums = RewardScale.nothing(), []
    for reward, ended in [(1.0, False), (2.0, False), (5.0, True), (-1.0, False)]:
        sums.append(reward + 0.5 * (0 if ended else sums[-1] if sums else 0))
        scale = compute(lambda s, r=reward, e=ended: s.add_reward(jnp.float32(r), jnp.bool_(e), 0.5), scale)
        expected = 1.0 if len(sums) == 1 else np.std(sums, ddof=1)
        np.testing.assert_allclose(scale.deviation(), expected, rtol=1e-5)
    assert sums == [1, 2.5, 5, 1.5]  # at a last step the reward alone


@pytest.mark.parametrize(("inputs", "zeros"), [(30, 27), (32, 29), (4, 4)])
def test_first_weights_are_sparse(inputs, zeros):
    layer = compute(lambda key: sparse_linear(Linear(key, inputs, 7), key, 0.9), KEY)
    assert ((layer.weight == 0).sum(0) == zeros).all()
    assert not layer.bias.any()
    assert np.abs(layer.weight).max() <= 1 / math.sqrt(inputs)
    if zeros < inputs:
        assert len({tuple(column) for column in (layer.weight != 0).T}) > 1  # not the same inputs for all


def test_layers_are_normalised_but_the_last():
    agent = StreamQ(**(PLAIN | {"hidden_sizes": (5,), "sparsity": 0.0}))
    network = at_once(lambda: agent.init(KEY, SPEC)).network
    x = np.array([1.0, -2.0], np.float32)
    first, last = network.layers
    hidden = x @ first.weight
    hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-5)
    np.testing.assert_allclose(
        compute(network, x), np.where(hidden > 0, hidden, 0.01 * hidden) @ last.weight, rtol=1e-4, atol=1e-6
    )


def test_deviations_are_finite():
    x = np.array([-200.0, -15.0, -1.0, 0.0, 5.0], np.float32)
    np.testing.assert_allclose(log_softplus(x), np.log(np.log1p(np.exp(np.float64(x)))), rtol=1e-4)
    assert np.isfinite(jax.vmap(jax.grad(log_softplus))(x)).all()


@pytest.mark.parametrize("agent", [Q, AC], ids=["stream-q", "stream-ac"])
def test_a_stream_is_one_environment_with_one_agent_and_a_network_that_can_learn(agent):
    with pytest.raises(ForageError, match=r"num_envs and rollout_length are 1, not 4 and 1; --seeds"):
        check(dataclasses.replace(agent, num_envs=4), SPEC)
    with pytest.raises(ForageError, match=r"not 1 and 8"):
        check(dataclasses.replace(agent, rollout_length=8), SPEC)
    with pytest.raises(ForageError, match="which of 8 units are all, so nothing behind them could be learned"):
        check(dataclasses.replace(agent, hidden_sizes=(32, 8)), SPEC)
    with pytest.raises(ForageError, match="needs one agent, and Plane has 2"):
        check(agent, dataclasses.replace(SPEC, num_agents=2))


def test_stream_q_numbers_its_actions():
    with pytest.raises(ForageError, match="StreamQ"):
        check(Q, dataclasses.replace(SPEC, action_space=spaces.Box(-1.0, 1.0, (1,))))
