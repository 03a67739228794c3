"""Agents on the shape of implicit Q-learning: f-DVL, ReCOIL, O-DICE and CFPI, their steps by hand and their limits."""

import dataclasses
import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium import spaces

from forage.agents.offline.iql import CriticInputs
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.data.demonstrations import Demonstrations
from forage.nn.critics import each_value
from forage_papers.agents.offline.cfpi import CFPI, Mixture, MixturePolicy, improve_action
from forage_papers.agents.offline.f_dvl import FDVL
from forage_papers.agents.offline.o_dice import ODICE
from forage_papers.agents.offline.recoil import ReCOIL

small.keep_compiled()
DISCOUNT, ABSENT = 0.8, 2
REWARD, TO = np.array([[0.0, 0.5], [1.0, 0.0]]), np.array([[1, 0], [0, 1]])  # as in test_offline_exact.py
SEEN = np.eye(2, dtype=np.float32)
BOX = spaces.Box(0.0, 1.0, (2,), np.float32)
SPEC = Spec("Two states", BOX, spaces.Discrete(3))
SMALL = {"hidden_sizes": (32,), "learning_rate": 3e-3, "discount": DISCOUNT, "polyak": 0.05}
QUICK = {"learning_rate": 0.3, "discount": DISCOUNT, "polyak": 0.05}
CLOCK, KEY = Clock(jnp.int32(0), jnp.float32(100)), jax.random.key(0)


def batch_of(scale=1.0, terminated=False):
    """Both actions of both states, once each."""
    rows = Experience(
        SEEN[[0, 0, 1, 1]], np.array([0, 1, 0, 1]), (scale * REWARD).reshape(4).astype("f"), SEEN[TO.reshape(4)],
        np.full(4, terminated), np.zeros(4, bool), np.zeros(4, np.int32), (),
    )  # fmt: skip
    return Batch(jax.tree.map(lambda x: x[None], rows), np.ones(4, np.float32), np.zeros(4, np.int32))


@functools.cache
def train_agent(agent, scale=1.0, updates=4000, **options):
    agent, batch = dataclasses.replace(agent, **options), jax.device_put(batch_of(scale))

    def update(i, state):
        return agent.learn(state, batch, Clock(i, jnp.float32(updates)), jax.random.fold_in(KEY, i))[0]

    return small.compute(lambda: jax.lax.fori_loop(0, updates, update, agent.init(KEY, SPEC)))


def choices(state, observation):
    """The probabilities of all actions."""
    return jax.nn.softmax(state.policy(observation).logits)


def fixed_point(combine, ahead=lambda values: REWARD + DISCOUNT * values[TO]):
    values = np.zeros(2)
    for _ in range(500):
        values = combine(ahead(values))
    return values


BEST = fixed_point(lambda q: q.max(1))


@pytest.mark.thorough
def test_where_the_value_of_f_dvl_settles():
    """By hand, for two actions: the better one's from an optimism of 2/3 on; below, the point of equal slopes."""
    for divergence in ("chi-square", "total-variation"):
        found = small.compute(train_agent(FDVL(**SMALL, divergence=divergence)).value, SEEN)
        np.testing.assert_allclose(found, BEST, rtol=0.03)
    # 0.6 (1 + u / 2) / 2 = 0.4 at the better action, where that is not below the other; else both pull.
    u = 2 * (2 * 0.4 / 0.6 - 1)
    expected = fixed_point(lambda q: np.maximum(q.max(1) - u, q.min(1)))
    found = small.compute(train_agent(FDVL(**SMALL, optimism=0.6)).value, SEEN)
    np.testing.assert_allclose(found, expected, rtol=0.03)


def test_f_dvl_by_hand():
    chi, total = FDVL(optimism=0.7), FDVL(optimism=0.7, divergence="total-variation")
    u = np.array([2.0, 0.5, -1.0, -6.0])
    np.testing.assert_allclose(chi.value_error(u), 0.7 * np.array([3, 0.5625, 0, 3]) - 0.3 * u, rtol=1e-6)
    np.testing.assert_allclose(total.value_error(u), 0.7 * np.array([2, 0.5, 0, 0]) - 0.3 * u, rtol=1e-6)
    agent = FDVL(hidden_sizes=(4,), huber=1.0)
    state = small.at_once(lambda: agent.init(KEY, SPEC))
    action, target = np.eye(3, dtype=np.float32)[:2], np.float32([30.0, 0.1])
    inputs = CriticInputs(SEEN, action, target, np.float32([1, 0.5]), state.policy.actions, KEY)
    loss, values = small.compute(
        lambda c: (agent.critic_loss(c, inputs)[0], each_value(c, SEEN, action)), state.critics
    )
    size = np.abs(values - target)
    error = np.where(size <= 1, size**2 / 2, size - 0.5) * [1, 0.5]
    np.testing.assert_allclose(loss, error.mean(1).sum(), rtol=1e-5)
    with pytest.raises(ForageError, match="one of chi-square, total-variation, not 'kl'"):
        FDVL(divergence="kl")


@pytest.mark.thorough
def test_nobody_takes_what_the_data_lack():
    found = small.compute(jax.vmap(lambda o: choices(train_agent(FDVL(**SMALL), beta=20.0), o)), SEEN)
    assert (found[:, ABSENT] < 0.01).all() and (found[[0, 1], [1, 0]] > 0.6).all()
    agent = ODICE(**SMALL, value_sizes=(32,), value_norm=False)
    found = small.compute(lambda: choices(train_agent(agent, 100.0), SEEN[0]))  # where the best policy stays
    assert found[1] > 0.9


@pytest.mark.thorough
def test_the_value_of_o_dice_is_the_best_and_a_price_that_large_rewards_outweigh():
    """By hand without the backward gradient; with it, the larger rewards are, the nearer it is to the best."""

    def value(scale, strength):
        agent = ODICE(hidden_sizes=(4,), value_sizes=(), value_norm=False, strength=strength, **QUICK)
        return small.compute(lambda s: each_value(s.values, SEEN).min(0), train_agent(agent, scale)) / scale

    price = 2 * (1 - 0.4 / (0.6 * 0.5))
    np.testing.assert_allclose(value(40.0, 0.0), BEST + price / (1 - DISCOUNT) / 40, rtol=0.01)
    near, far = (np.abs(value(scale, 1.0) / BEST - 1).max() for scale in (400.0, 20.0))
    assert near < 0.05 and near < far


def test_the_orthogonal_gradient_by_hand():
    """For values w . s + b: the backward gradient loses its component along the forward one."""
    agent = ODICE(hidden_sizes=(4,), value_sizes=(), optimism=0.7, strength=0.5, discount=0.9)
    state = small.at_once(lambda: agent.init(KEY, SPEC))
    now = jax.tree.map(lambda x: x[0], batch_of()._replace().experience)
    now = now._replace(terminated=np.array([False, True, False, False]))
    gradient, error = small.compute(lambda s: agent.value_gradient(s, now, np.ones(4, np.float32)), state)
    weight, bias = (np.asarray(x)[..., 0] for x in (state.values.head.weight, state.values.head.bias))
    value, after = weight @ now.observation.T + bias[:, None], weight @ now.next_observation.T + bias[:, None]
    going = 0.9 * ~now.terminated
    u, w = now.reward + going * after.min(0) - value, now.reward + going * after - value.min(0)
    np.testing.assert_allclose(error, u, rtol=1e-4, atol=1e-5)
    seen, following = (np.concatenate([x, np.ones((4, 1))], 1) for x in (now.observation, now.next_observation))
    slope = lambda x: np.maximum(x / 2 + 1, 0) / 8  # of f*, in a mean over both networks  # noqa: E731
    g = -0.7 * slope(u) @ seen
    h = 0.5 * 0.7 * (slope(w) * going) @ following
    level = 0.3 * np.full((2, 4), 1 / 8) @ seen
    expected = level + g + h - (g * h).sum() / (g * g).sum() * g
    np.testing.assert_allclose(gradient.head.weight[..., 0], expected[:, :2], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(gradient.head.bias[:, 0], expected[:, 2], rtol=1e-3, atol=1e-5)


def test_o_dice_clones_by_how_far_targets_are_above_the_values():
    """A linear policy and plain descent: of two networks' u the mean, each cut below at 0 and above, and decay."""
    sizes = {"hidden_sizes": (), "value_sizes": (), "optimiser": "sgd", "learning_rate": 0.1}
    agent = ODICE(**sizes, value_norm=False, most_weight=1.5, weight_decay=0.5, discount=0.9)
    state = small.at_once(lambda: agent.init(KEY, SPEC))
    values = equinox.tree_at(lambda v: v.head.bias, state.values, jnp.array([[1.5], [-0.5]]))
    state = state._replace(values=values, target_values=jax.tree.map(lambda x: 0.5 - x, values))
    weight = np.array([1.0, 0.5, 2.0, 1.0], np.float32)
    batch = batch_of(2.0)._replace(weight=weight)
    ends = np.array([[False, True, False, False]])
    batch = batch._replace(experience=batch.experience._replace(terminated=ends))
    learned, metrics, error = small.compute(lambda s: agent.learn(s, batch, CLOCK, KEY), state)

    def run_both(network, seen):
        return np.asarray(network.head.weight)[..., 0] @ seen.T + np.asarray(network.head.bias)

    now = jax.tree.map(lambda x: x[0], batch.experience)
    u = now.reward + 0.9 * ~now.terminated * run_both(state.target_values, now.next_observation).min(0)
    u = u - run_both(state.values, now.observation)
    np.testing.assert_allclose(error, np.abs(u).mean(0), rtol=1e-4)
    factor = np.clip(u, 0.0, 1.5)
    assert (factor == 0).any() and (factor == 1.5).any() and ((factor > 0) & (factor < 1.5)).any()
    head, action = state.policy.head, now.action
    logits = now.observation @ np.asarray(head.weight) + np.asarray(head.bias)
    chance = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    climb = (weight * factor.mean(0))[:, None] * (np.eye(3)[action] - chance) / 4
    np.testing.assert_allclose(learned.policy.head.bias, 0.95 * head.bias + 0.1 * climb.sum(0), rtol=1e-4, atol=1e-6)
    moved = 0.95 * head.weight + 0.1 * now.observation.T @ climb
    np.testing.assert_allclose(learned.policy.head.weight, moved, rtol=1e-4, atol=1e-6)
    surprise = -np.log(chance)[np.arange(4), action]
    np.testing.assert_allclose(metrics["policy_loss"], (weight * factor.mean(0) * surprise).mean(), rtol=1e-4)


# Imitation

ROWS = jax.tree.map(lambda x: x[0], batch_of().experience)
SHOWN = Demonstrations("shown", "", jax.tree.map(lambda x: x[1:3], ROWS))  # 0 -> 0 by the second, 1 -> 0 by the first
SHOWN = dataclasses.replace(SHOWN, data=jax.device_put(SHOWN.data))


def test_recoil_by_hand():
    agent = ReCOIL(demonstrations=SHOWN, hidden_sizes=(4,), temperature=2.0, most_value=10.0, discount=0.9)
    u = np.float32([4.0, -1.0, 60.0])
    z = np.minimum(u / 2, 7.0)
    np.testing.assert_allclose(agent.value_error(u), np.exp(z - 7) - (z + 1) * np.exp(-7), rtol=1e-5)
    low = np.float32([-8.0, -6.0])  # z of -4 and -3: the largest counts as -1
    np.testing.assert_allclose(agent.value_error(low), np.exp(low / 2 + 1) - (low / 2 + 1) * np.exp(1), rtol=1e-5)
    now = ROWS._replace(terminated=np.array([False, False, True, False]))
    found = agent.target(now, np.float32([1, 2, 3, 4]))
    np.testing.assert_allclose(found, -1 + 0.9 * np.array([1, 2, -10, 4]), rtol=1e-6)


@pytest.mark.thorough
def test_what_was_demonstrated_is_worth_most_and_what_leads_there_nearly_as_much():
    """Demonstrated: state 0 by action 1, state 1 by action 0, both to state 0. The rest leads to states of them."""
    agent = ReCOIL(**SMALL, demonstrations=SHOWN, temperature=0.2, most_value=1.0, beta=20.0)
    state = train_agent.__wrapped__(agent)  # arrays have no hash to be remembered by
    action = np.eye(3, dtype=np.float32)[[0, 1, 0, 1]]
    q = small.compute(lambda s: each_value(s.critics, ROWS.observation, action).min(0), state)
    value = small.compute(state.value, SEEN)
    # Each demonstrated pair is in the data as well: half of its loss pulls to 1, half to what it leads to.
    ahead = -0.2 + 0.8 * value[TO.reshape(4)]
    np.testing.assert_allclose(q[[0, 3]], ahead[[0, 3]], atol=0.03)
    assert (q[[1, 2]] > q[[0, 3]] + 0.1).all()
    soft = 0.2 * np.log(np.exp(q.reshape(2, 2) / 0.2).mean(1))
    np.testing.assert_allclose(value, soft, atol=0.03)
    found = small.compute(jax.vmap(lambda o: choices(state, o)), SEEN)
    assert (found[[0, 1], [1, 0]] > 0.9).all()


def test_recoil_needs_demonstrations():
    with pytest.raises(ForageError, match="ReCOIL imitates demonstrations; name a file"):
        check(ReCOIL(), SPEC)


# Closed-form improvement

MEAN = np.float32([[0.1, -0.2], [0.3, 0.1]])
LOG_STD = np.log(np.float32([[0.2, 0.1], [0.3, 0.25]]))
SLOPE = np.float32([1.0, -0.5])
linear = lambda action: action @ SLOPE  # noqa: E731


def mixture(*weights):
    number = len(weights)
    return Mixture(jnp.log(jnp.asarray(weights)), jnp.asarray(MEAN[:number]), jnp.asarray(LOG_STD[:number]))


def test_one_gaussian_by_hand():
    variance = np.exp(2 * LOG_STD[0])
    expected = MEAN[0] + np.sqrt(2 * 0.5) * variance * SLOPE / np.sqrt((variance * SLOPE**2).sum())
    found = small.compute(lambda: improve_action(mixture(1.0), linear, 0.5, 0.05))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_allclose(
        small.compute(lambda: improve_action(mixture(1.0), linear, 0.0, 0.05)), MEAN[0], atol=1e-6
    )


def test_of_a_mixture_it_is_the_best_that_either_bound_allows():
    """Against the best of all points of a fine grid that a bound allows."""
    weight, variance, trust = np.array([0.3, 0.7]), np.exp(2 * LOG_STD.astype(float)), 1.2
    grid = np.stack(np.meshgrid(*np.linspace([-1, -1], [1, 1], 801).T), -1).reshape(-1, 2)
    distance = ((grid[:, None] - MEAN) ** 2 / variance).sum(-1)
    peak = np.log(weight) - LOG_STD.sum(1)
    allowed = [distance[:, k] <= 2 * (trust + peak[k] - peak.max()) for k in range(2)]
    best = max(linear(grid)[there].max() for there in (*allowed, distance @ weight <= 2 * trust))
    found = small.compute(lambda: improve_action(mixture(0.3, 0.7), linear, trust, 0.05))
    np.testing.assert_allclose(linear(found), best, atol=5e-3)


def test_light_gaussians_propose_nothing():
    far = Mixture(jnp.log(jnp.array([0.97, 0.03])), jnp.array([[0.0, 0.0], [0.8, -0.8]]), jnp.full((2, 2), -2.3))
    light, heavy = (small.compute(lambda least=least: improve_action(far, linear, 4.0, least)) for least in (0.0, 0.05))
    assert light[0] > 0.8 and np.abs(heavy).max() < 0.5


def test_cfpi_acts_by_the_formula_and_clones_what_it_starts_from():
    box = Spec("Box", BOX, spaces.Box(-2.0, 2.0, (2,), np.float32))
    agent = CFPI(hidden_sizes=(4,), components=1, pessimism=0.0)
    state = small.at_once(lambda: agent.init(KEY, box))
    # Critics say the first number, and half of the second, less.
    last = np.zeros_like(state.critics.body.layers[-1].weight)
    first = np.zeros_like(state.critics.body.layers[0].weight)
    first[:, 2:] = [[1, -1, 0, 0], [0, 0, 1, -1]]
    last[:, :, 0] = [1, -1, -0.5, 0.5]
    critics = jax.tree.map(np.zeros_like, state.critics)
    where = lambda c: (c.body.layers[0].weight, c.body.layers[-1].weight)  # noqa: E731
    state = state._replace(critics=equinox.tree_at(where, critics, (first, last)))
    action, found, density = small.compute(
        lambda s: (
            agent.act(s, ActInputs((), SEEN[0], KEY, True))[0],
            s.policy(SEEN[0]),
            s.policy.log_probability(SEEN, np.float32([[0.5, -1.0], [1.5, 0.0]])),
        ),
        state,
    )
    variance = np.exp(2 * found.log_std[0])
    unit = found.mean[0] + variance * SLOPE / np.sqrt((variance * SLOPE**2).sum())
    np.testing.assert_allclose(action, 2 * np.clip(unit, -1, 1), rtol=1e-4, atol=1e-5)
    z = (np.array([0.25, -0.5]) - found.mean[0]) / np.exp(found.log_std[0])
    np.testing.assert_allclose(density[0], (-(z**2) / 2 - found.log_std[0] - np.log(2 * np.pi) / 2).sum(), rtol=1e-4)
    assert isinstance(state.policy, MixturePolicy)
    with pytest.raises(ForageError, match="CFPI follows the slope of values over actions that are numbers"):
        check(agent, SPEC)
