"""QR-DQN, C51 and DQN with histograms against distributions worked out by hand."""

import math

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces
from small import at_once, compute, zeros
from tiers import first

from forage.agents.q_learning.c51 import C51, project_atoms
from forage.agents.q_learning.dqn import DQN
from forage.agents.q_learning.iqn import IQN
from forage.agents.q_learning.qr_dqn import QRDQN
from forage.agents.q_learning.vdn import VDN
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.ops.quantiles import quantile_error

STATES = 3
SPEC = Spec("Table", spaces.Discrete(STATES), spaces.Discrete(2))
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
PLAIN = {"discount": 0.5, "dueling": False, "n_step": 1, "hidden_sizes": (STATES,)}
# Of state and action: two quantiles. In state 1 the online network prefers action 1, the target network action 0.
ONLINE = np.array([[[0, 2], [1, 1]], [[0, 0], [1, 3]], [[0, 0], [0, 0]]], np.float32)
TARGET = np.array([[[9, 9], [9, 9]], [[6, 8], [2, 4]], [[0, 0], [0, 0]]], np.float32)


def table(agent, numbers):
    """Return a network with the one-hot state as features, so that its last layer is the table."""
    network = zeros(lambda: agent.init(jax.random.key(0), SPEC)).network
    where = lambda n: (n.torso.body.layers[0].weight, n.advantage.layers[0].weight)  # noqa: E731
    return equinox.tree_at(where, network, (np.eye(STATES), numbers.reshape(STATES, -1)))


def transition(reward, terminated=False, truncated=False):
    """From state 0 by action 0 to state 1, as a batch of one."""
    one = lambda x, dtype: np.array([[x]], dtype)  # noqa: E731
    e = Experience(
        one(0, np.int32), one(0, np.int32), one(reward, np.float32), one(1, np.int32), one(terminated, bool),
        one(truncated, bool), one(0, np.int32), (),
    )  # fmt: skip
    return jax.device_put(Batch(e, np.ones(1), np.zeros(1, np.int32)))


def test_quantile_loss_by_hand():
    # Quantiles 0.25 and 0.75 at 0 and 2; to a sample at 1 it is +1 and -1, to one at 5 +5 and +3.
    one = 0.25 * 0.5 + 0.25 * 0.5
    other = 0.25 * 4.5 + 0.75 * 2.5
    found = quantile_error(jnp.array([[0.0, 2.0]] * 3), jnp.array([[1.0, 1.0], [5.0, 5.0], [1.0, 5.0]]))
    np.testing.assert_allclose(found, [one, other, (one + other) / 2], rtol=1e-6)


def test_the_loss_is_least_at_the_quantiles():
    samples = jnp.arange(10.0, 1001.0, 10.0)[None]  # far apart against the threshold of the Huber loss
    slope = jax.grad(lambda q: quantile_error(q[None], samples)[0])
    np.testing.assert_allclose(slope(jnp.array([255.0, 755.0])), [0, 0], atol=1e-5)
    assert float(slope(jnp.array([205.0, 755.0]))[0]) < 0 < float(slope(jnp.array([305.0, 755.0]))[0])


@pytest.mark.parametrize(
    ("double", "ends", "goal"),
    first(
        1,
        [
            (False, {}, [4, 5]),  # 1 + 0.5 (6, 8): the target network's best action is 0
            (True, {}, [2, 3]),  # 1 + 0.5 (2, 4): the online network's is 1
            (True, {"terminated": True}, [1, 1]),
            (False, {"truncated": True}, [4, 5]),
        ],
    ),
)
def test_quantiles_go_to_those_of_what_follows(double, ends, goal):
    agent = QRDQN(**PLAIN, double=double, quantiles=2)
    loss, (error, _) = compute(agent.loss, table(agent, ONLINE), table(agent, TARGET), transition(1.0, **ends))
    expected = quantile_error(jnp.array([[0.0, 2.0]]), jnp.array([goal], jnp.float32))[0]
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    np.testing.assert_allclose(error, [[np.mean(goal) - 1]], rtol=1e-6)


def test_moved_atoms_are_shared_by_their_neighbours():
    places, probability = jnp.array([-1.0, 0.0, 1.0]), jnp.array([[0.2, 0.3, 0.5]])
    moved = jnp.array([[-0.5, 0.5, 1.5]])  # half each to -1 and 0, half each to 0 and 1, cut to 1
    np.testing.assert_allclose(project_atoms(probability, moved, places), [[0.1, 0.25, 0.65]], rtol=1e-6)
    same = jnp.zeros((1, 3)) + 0.25  # after an end all atoms are the reward
    np.testing.assert_allclose(project_atoms(probability, same, places), [[0, 0.75, 0.25]], atol=1e-6)


@pytest.mark.parametrize(("terminated", "goal"), [(False, [0.0, 0.35, 0.65]), (True, [0, 0.5, 0.5])])
def test_a_distribution_goes_to_that_of_what_follows(terminated, goal):
    agent = C51(**PLAIN, double=False, atoms=3, low=-1.0, high=1.0)
    taken, after = np.array([0.5, 0.25, 0.25]), np.array([0.2, 0.3, 0.5])
    online, target = np.zeros((STATES, 2, 3), np.float32), np.zeros((STATES, 2, 3), np.float32)
    online[0, 0] = np.log(taken)
    target[1, 1] = np.log(after)  # of mean 0.3, above the other action's 0
    batch = transition(0.5, terminated)  # atoms -1, 0, 1 go to 0, 0.5 and 1
    loss, (divergence, metrics) = compute(agent.loss, table(agent, online), table(agent, target), batch)
    goal = np.array([0, 0.2 + 0.15, 0.15 + 0.5]) if not terminated else np.array(goal)
    cross_entropy = -np.sum(goal * np.log(taken))
    np.testing.assert_allclose(loss, cross_entropy, rtol=1e-5)
    positive = goal[goal > 0]
    np.testing.assert_allclose(divergence, [[cross_entropy + np.sum(positive * np.log(positive))]], rtol=1e-5)
    np.testing.assert_allclose(metrics["q"], -0.25, rtol=1e-5)


@pytest.mark.parametrize(("ends", "goal"), [({}, 0.75), ({"terminated": True}, 0.5), ({"truncated": True}, 0.75)])
def test_a_histogram_goes_to_the_one_about_the_target(ends, goal):
    """Bins from -1 to 2 with means -0.5, 0.5 and 1.5; the next state's best action is worth 0.5."""
    agent = DQN(**PLAIN, double=False, bins=3, lowest_value=-1.0, highest_value=2.0)
    taken = np.array([0.5, 0.25, 0.25])
    online, target = np.zeros((STATES, 2, 3), np.float32), np.zeros((STATES, 2, 3), np.float32)
    online[0, 0] = np.log(taken)
    target[1, 0] = np.log([0.25, 0.5, 0.25])
    target[1, 1] = np.log([0.5, 0.25, 0.25])
    loss, (error, metrics) = compute(agent.loss, table(agent, online), table(agent, target), transition(0.5, **ends))
    np.testing.assert_allclose(error, [[goal - 0.25]], rtol=1e-5)
    below = [0.5 * (1 + math.erf((edge - goal) / 0.75 / 2**0.5)) for edge in (-1, 0, 1, 2)]  # a deviation of 3/4 bin
    shares = np.diff(below) / (below[-1] - below[0])
    np.testing.assert_allclose(loss, -np.sum(shares * np.log(taken)), rtol=1e-5)
    np.testing.assert_allclose(metrics["q"], 0.25, rtol=1e-5)


@pytest.mark.parametrize(
    "agent",
    first(
        1,
        [
            QRDQN(**PLAIN | {"dueling": True}, quantiles=2),
            C51(**PLAIN | {"dueling": True}, atoms=3),
            DQN(**PLAIN | {"dueling": True}, bins=3),
        ],
    ),
)
def test_streams_are_added_for_each_number_and_actions_follow_the_mean(agent):
    network = at_once(lambda: agent.init(jax.random.key(0), SPEC)).network
    features = jax.random.normal(jax.random.key(1), (STATES,))
    spread = network.spread(features)
    np.testing.assert_allclose(spread.mean(0), network.state_value(features), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(network.q(features), network.value(spread), rtol=1e-6)
    state = at_once(lambda: agent.init(jax.random.key(0), SPEC))
    action = agent.act(state, ActInputs((), jnp.int32(1), jax.random.key(0), explore=False))[0]
    assert int(action) == int(np.argmax(state.network(jnp.int32(1))))


def test_what_does_not_fit_is_refused():
    for cls in (QRDQN, C51):
        with pytest.raises(ForageError, match="has no memory yet; leave gru_size out, or take dqn"):
            cls(gru_size=8)
    with pytest.raises(ForageError, match="leave bins or gru_size out"):
        DQN(bins=11, gru_size=8)
    for cls in (C51, QRDQN, VDN):
        with pytest.raises(ForageError, match=f"{cls.__name__} has values of its own kind; leave bins out"):
            cls(bins=11)
    with pytest.raises(ForageError, match="lowest_value of DQN is below highest_value, and 2 is not below 1"):
        DQN(bins=11, lowest_value=2.0, highest_value=1.0)
    with pytest.raises(ForageError, match="low of C51 is below high, and 5 is not below 1"):
        check(C51(low=5.0, high=1.0), SPEC)


def test_implicit_quantiles_by_hand():
    """Shares 0.1 and 0.9 stand in place of 0.25 and 0.75; samples are 1 and 5, as above."""
    share = jnp.array([[0.1, 0.9], [0.25, 0.75]])
    one = lambda low, high: 0.5 * ((low + 0) * 0.5 + low * 4.5) + 0.5 * ((1 - high) * 0.5 + high * 2.5)  # noqa: E731
    found = quantile_error(jnp.array([[0.0, 2.0]] * 2), jnp.array([[1.0, 5.0]] * 2), share)
    np.testing.assert_allclose(found, [one(0.1, 0.9), one(0.25, 0.75)], rtol=1e-6)


def test_iqns_loss_is_qr_dqns_where_shares_have_no_effect():
    """Without weights phi(tau) is relu(bias) = 1, so every share has DQN's value of the action: Q is the table's."""
    agent = IQN(**PLAIN, samples=3, target_samples=2, act_samples=4, cosines=5, double=False)

    def network(values):
        made = table(agent, np.array(values, np.float32))
        return equinox.tree_at(lambda n: n.embedding.bias, made, np.ones(STATES, np.float32))

    online, target = network([[1, 5], [0, 0], [0, 0]]), network([[9, 9], [2, 6], [0, 0]])
    np.testing.assert_allclose(compute(lambda n: n(jnp.int32(0)), online), [1.0, 5.0])
    loss, (error, _) = compute(agent.loss, online, target, transition(3.0), jax.random.key(0))
    np.testing.assert_allclose(error, [[3 + 0.5 * 6 - 1]])
    # u = 5 in every pair, above the estimate: sum_i tau_i (5 - 0.5)
    share = jax.random.uniform(jax.random.split(jax.random.key(0))[0], (1, 3))
    np.testing.assert_allclose(loss, 4.5 * share.sum(), rtol=1e-5)
