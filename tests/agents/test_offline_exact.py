"""Exact results of agents that learn from data: two states and three actions, the third missing from the data."""

import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces
from tiers import first

from forage.agents.actor_critic.offline.cal_ql import CalQL
from forage.agents.actor_critic.offline.cql import CQL
from forage.agents.actor_critic.offline.rebrac import ReBRAC
from forage.agents.actor_critic.offline.td3_bc import TD3BC
from forage.agents.actor_critic.td3 import TD3
from forage.agents.offline.bc import BC
from forage.agents.offline.iql import IQL
from forage.agents.q_learning.discrete_bcq import DiscreteBCQ
from forage.agents.q_learning.discrete_cql import DiscreteCQL
from forage.agents.q_learning.dqn import DQN
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.critics import each_value

small.keep_compiled()
DISCOUNT, ABSENT = 0.8, 2
REWARD, TO = np.array([[0.0, 0.5], [1.0, 0.0]]), np.array([[1, 0], [0, 1]])  # of states and the actions that were taken
BOX = spaces.Box(0.0, 1.0, (2,), np.float32)
SPEC = Spec("Two states", BOX, spaces.Discrete(3))
SMALL = {"hidden_sizes": (32,), "learning_rate": 3e-3}
VALUES = SMALL | {"discount": DISCOUNT}
DEEP_Q = VALUES | {"double": False, "dueling": False, "n_step": 1, "target_update_interval": 40}
BATCH = Batch(
    Experience(
        np.eye(2, dtype=np.float32)[None, [0, 0, 1, 1]], np.array([[0, 1, 0, 1]]), REWARD.reshape(1, 4).astype("f"),
        np.eye(2, dtype=np.float32)[None, TO.reshape(4)], np.zeros((1, 4), bool), np.zeros((1, 4), bool),
        np.zeros((1, 4), np.int32), (),
    ),
    np.ones(4, np.float32),
    np.zeros(4, np.int32),
)  # fmt: skip


def train_agent(agent, updates, batch=BATCH, spec=SPEC, change=lambda state: state):
    """Return the agent's state after a number of updates, each from all of the data."""

    def update(i, state):
        return agent.learn(state, batch, Clock(i, jnp.float32(updates)), jax.random.key(i))[0]

    batch = jax.device_put(batch)
    run = lambda: jax.lax.fori_loop(0, updates, update, change(agent.init(jax.random.key(0), spec)))  # noqa: E731
    return small.compute(run)


def fixed_point(combine):
    """V = combine(Q(s, .)), Q(s, a) = r + discount V(s')."""
    values = np.zeros(2)
    for _ in range(500):
        values = combine(REWARD + DISCOUNT * values[TO])
    return values


BEST = fixed_point(lambda q: q.max(1))


def test_the_table_by_hand():
    np.testing.assert_allclose(BEST, [2.5, 3.0])
    np.testing.assert_allclose(fixed_point(lambda q: q.mean(1)), [1.75, 2.0])


@pytest.mark.parametrize("expectile", first(1, [0.5, 0.99]))
def test_iqls_value_is_the_expectile_and_tends_to_the_best_in_the_data(expectile):
    agent = IQL(**VALUES, expectile=expectile, polyak=0.05)
    state = train_agent(agent, 4000)
    found = small.compute(state.value, np.eye(2, dtype=np.float32))
    expected = fixed_point(lambda q: expectile * q.max(1) + (1 - expectile) * q.min(1))  # of two numbers, each half
    np.testing.assert_allclose(found, expected, rtol=0.02)
    if expectile > 0.9:
        np.testing.assert_allclose(found, BEST, rtol=0.02)


def hopeful(state):
    """The absent action is worth 10, as far as the networks know."""

    def zero_layers(network):
        q = network.q if hasattr(network, "head") else network
        layers = (
            (lambda n: n.q.advantage.layers[-1].bias) if q is not network else (lambda n: n.advantage.layers[-1].bias)
        )
        return equinox.tree_at(layers, network, jnp.zeros(3).at[ABSENT].set(10.0))

    return state._replace(network=zero_layers(state.network), target=zero_layers(state.target))


@functools.cache
def q_values(kind, **options):
    agent = kind(**DEEP_Q, **options)
    state = train_agent(agent, 4000, change=hopeful)
    seen = np.eye(2, dtype=np.float32)
    act = jax.vmap(
        lambda o: (agent.act(state, ActInputs((), o, jax.random.key(0), False))[0], agent.action_values(state, (), o))
    )
    return small.compute(act, seen)


@pytest.mark.thorough
def test_deep_q_learning_extrapolates():
    action, values = q_values(DQN)
    assert (action == ABSENT).all() and (values.max(1) > BEST + 1).all()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [DiscreteCQL, DiscreteBCQ])
def test_nobody_else_takes_the_absent_action_or_its_value(kind):
    action, values = q_values(kind)
    assert (action != ABSENT).all() and (values.max(1) < BEST * 1.02).all()


def test_bcq_finds_the_best_that_the_data_support():
    action, values = q_values(DiscreteBCQ)
    np.testing.assert_array_equal(action, [1, 0])
    np.testing.assert_allclose(values.max(1), BEST, rtol=0.02)


def test_cqls_value_lies_below_its_policys_own():
    action, values = q_values(DiscreteCQL)
    transition = np.eye(2)[TO[np.arange(2), action]]
    true = np.linalg.solve(np.eye(2) - DISCOUNT * transition, REWARD[np.arange(2), action])
    assert (values[np.arange(2), action] < true).all()


def test_bc_takes_what_was_taken():
    agent = BC(**SMALL)
    state = train_agent(agent, 2000)
    found = small.compute(jax.vmap(lambda o: agent.probabilities(state, o, explore=True)), np.eye(2, dtype=np.float32))
    behaviour = np.array([0.5, 0.5])
    divergence = (behaviour * np.log(behaviour / found[:, :2])).sum(1)
    assert (divergence < 0.01).all()


LINE = Spec("Line", BOX, spaces.Box(-1.0, 1.0, (1,), np.float32))
TAKEN = np.linspace(-1.0, 0.0, 64, dtype=np.float32)  # the data pay 3 + a, and nobody knows what lies above 0
ONCE = np.tile(np.float32([1.0, 0.0]), (1, 64, 1))
LINEAR = Batch(
    Experience(
        ONCE, TAKEN[None, :, None], 3 + TAKEN[None], ONCE, np.ones((1, 64), bool), np.zeros((1, 64), bool),
        np.zeros((1, 64), np.int32), (), return_to_go=3 + TAKEN[None],
    ),
    np.ones(64, np.float32),
    np.zeros(64, np.int32),
)  # fmt: skip


def choose(agent, updates=1000):
    batch = LINEAR
    if agent.segment == 2:
        batch = LINEAR._replace(experience=jax.tree.map(lambda x: np.concatenate([x, x]), LINEAR.experience))
    state = train_agent(agent, updates, batch, LINE)
    observation = np.float32([1.0, 0.0])
    action = small.compute(lambda s: agent.act(s, ActInputs((), observation, jax.random.key(0), False))[0], state)
    value = small.compute(lambda s: each_value(s.critics, ONCE[0, :1], jnp.ones((1, 1))).min(), state)
    return float(action[0]), float(value)


@pytest.mark.thorough
def test_td3_goes_where_no_data_are():
    assert choose(TD3(**SMALL))[0] > 0.7


SOFT = {"hidden_sizes": (32,), "value_sizes": (), "learning_rate": 3e-3, "policy_learning_rate": 3e-3, "samples": 4}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "agent",
    [TD3BC(**SMALL, normalise_observation=False), ReBRAC(**SMALL), CQL(**SOFT), CalQL(**SOFT, backup_samples=1)],
    ids=lambda agent: type(agent).__name__,
)
def test_nobody_else_leaves_the_data(agent):
    action, value = choose(agent)
    assert action < 0.25, "the policy goes where no data are"
    if isinstance(agent, CQL):
        assert value < 3.0, "the value of an action that nobody took is above all that was paid"


@pytest.mark.thorough
@pytest.mark.parametrize("cls", [BC, IQL])
def test_observations_are_standardised_by_the_data(cls):
    """An update from raw observations is one from standardised ones, and so is an action."""
    shift, scale = np.array([5000.0, -3.0], np.float32), np.array([1000.0, 0.01], np.float32)
    seen = np.array([[1, -1], [1, 1], [-1, -1], [-1, 1]], np.float32)  # of mean 0 and deviation 1
    plain = BATCH._replace(experience=BATCH.experience._replace(observation=seen[None], next_observation=seen[None]))
    raw = jax.tree.map(lambda x: x * scale + shift, seen)
    given = BATCH._replace(experience=plain.experience._replace(observation=raw[None], next_observation=raw[None]))
    agent = cls(hidden_sizes=(4,), normalise_observation=True)
    spec = Spec("Far", spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Discrete(3))
    fit = lambda state: agent.init_from_dataset(state, given.transitions)  # noqa: E731
    found = train_agent(agent, 1, given, spec, fit)
    other = train_agent(cls(hidden_sizes=(4,)), 1, plain, spec)
    np.testing.assert_allclose(found.norm.mean, shift, rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(found.norm.variance), scale, rtol=2e-2)  # of numbers near 3 in float32
    assert other.norm is None and agent.needs_whole_dataset
    for one, two in zip(jax.tree.leaves(found.policy), jax.tree.leaves(other.policy), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)
    logits = [agent.probabilities(found, x, True) for x in raw]
    np.testing.assert_allclose(logits, [agent.probabilities(other, x, True) for x in seen], atol=1e-3)
