"""Bootstrapped DQN: targets, masks and priors by hand, heads that are followed and heads that vote."""

import dataclasses
import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces
from small import at_once, compute

from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage_papers.agents.q_learning.bootstrapped_dqn import ActiveHead, BootstrappedDQN

STATES, HEADS = 3, 2
SPEC = Spec("Table", spaces.Discrete(STATES), spaces.Discrete(2))
AGENT = BootstrappedDQN(heads=HEADS, hidden_sizes=(STATES,), discount=0.5, prior_scale=10.0, double=True)
CLOCK, KEY = Clock(jnp.int32(0), jnp.float32(100)), jax.random.key(0)
ONLINE = np.array([[[1.0, 2.0], [3.0, 5.0], [6.0, 4.0]], [[0.0, 1.0], [8.0, 2.0], [1.0, 1.5]]], np.float32)
TARGET = np.array([[[9.0, 7.0], [20.0, 40.0], [4.0, 4.5]], [[3.0, 2.0], [60.0, 50.0], [2.0, 6.0]]], np.float32)
PRIOR = np.array([[[0.1, 0.0], [0.3, 0.2], [0.0, 0.4]], [[0.5, 0.1], [0.0, 0.9], [0.2, 0.2]]], np.float32)


@functools.cache
def beginning(spec=SPEC, **options):
    agent = dataclasses.replace(AGENT, **options)
    return agent, at_once(lambda: agent.init(KEY, spec))


def table(values):
    """Return heads with the values of a table, `head state action`: the state goes through all layers one-hot."""
    heads = jax.tree.map(np.zeros_like, beginning()[1].network)
    where = lambda n: (n.torso.body.layers[0].weight, n.tops.layers[0].weight, n.tops.layers[1].weight)  # noqa: E731
    eyes = jnp.broadcast_to(np.eye(STATES), (len(values), STATES, STATES))
    return equinox.tree_at(where, heads, (np.eye(STATES), eyes, values))


def state_of():
    return beginning()[1]._replace(network=table(ONLINE), target=table(TARGET), prior=table(PRIOR))


def batch_of(observation, action, reward, after, terminated, masks):
    """Segments of one step, side by side."""
    row = lambda x, dtype: np.asarray(x, dtype)[None]  # noqa: E731
    number = len(reward)
    experience = Experience(
        row(observation, jnp.int32), row(action, jnp.int32), row(reward, jnp.float32), row(after, jnp.int32),
        row(terminated, bool), jnp.zeros((1, number), bool), jnp.zeros((1, number), jnp.int32), row(masks, bool),
    )  # fmt: skip
    return jax.device_put(Batch(experience, np.ones(number), np.zeros(number, jnp.int32)))


@pytest.mark.parametrize(
    ("double", "goals"),
    # From state 1, beside priors: head 0 holds 3 + 3 against 5 + 2 and takes action 1, Q' = 40 + 2. Head 1 holds
    # 8 + 0 against 2 + 9 and takes action 1, Q' = 50 + 9; its own target's maximum is 60 + 0, action 0.
    [(True, [4 + 42 / 2, 4 + 59 / 2]), (False, [4 + 42 / 2, 4 + 60 / 2])],
)
def test_every_head_has_its_own_target(double, goals):
    agent = dataclasses.replace(AGENT, double=double)
    state = state_of()
    batch = batch_of([0, 2], [0, 1], [4, -7], [1, 0], [0, 1], [[1, 1], [0, 1]])
    loss, (size, _) = compute(agent.loss, state.network, state.target, state.prior, batch)
    # Q(0, 0) = 1 + 1 and 0 + 5; Q(2, 1) = 4 + 4 and 1.5 + 2. The end's target is the reward alone.
    errors = np.array([[goals[0] - 2, goals[1] - 5], [-7 - 8, -7 - 3.5]])
    huber = np.where(np.abs(errors) < 1, errors**2 / 2, np.abs(errors) - 0.5)
    np.testing.assert_allclose(loss, (huber * [[1, 1], [0, 1]]).mean(0).sum(), rtol=1e-5)
    np.testing.assert_allclose(size, np.abs(errors).mean(1), rtol=1e-5)


def test_a_masked_head_learns_nothing_and_the_torso_hears_the_mean_of_heads():
    state = state_of()

    def gradient(masks):
        batch = batch_of([0], [0], [4], [1], [0], [masks])
        return compute(jax.grad(AGENT.loss, has_aux=True), state.network, state.target, state.prior, batch)[0]

    only, both = gradient([1, 0]), gradient([1, 1])
    assert not any(leaf[1].any() for leaf in jax.tree.leaves(only.tops))
    np.testing.assert_array_equal(both.tops.layers[1].weight[0], only.tops.layers[1].weight[0])
    # d loss / d q is -1 beyond the threshold; head k's weights for action 0 come back, each halved.
    expected = -0.5 * np.stack([ONLINE[0, :, 0], ONLINE[0, :, 0] + ONLINE[1, :, 0]])
    bias = lambda g: np.asarray(g.torso.body.layers[0].bias)  # noqa: E731
    np.testing.assert_allclose(np.stack([bias(only), bias(both)])[:, 0], expected[:, 0], rtol=1e-5)


def test_priors_are_never_trained_and_the_target_follows():
    agent = dataclasses.replace(AGENT, num_envs=4, rollout_length=1, target_update_interval=8)
    start = state_of()
    batch = batch_of([0, 2], [0, 1], [4, -7], [1, 0], [0, 1], [[1, 1], [1, 1]])
    learn = jax.jit(lambda state: agent.learn(state, batch, CLOCK, KEY)[0])
    once = learn(start)
    twice = learn(once)
    jax.tree.map(np.testing.assert_array_equal, twice.prior, start.prior)
    jax.tree.map(np.testing.assert_array_equal, once.target, start.target)
    jax.tree.map(np.testing.assert_array_equal, twice.target, twice.network)
    assert (once.network.tops.layers[1].weight != start.network.tops.layers[1].weight).any()


@pytest.mark.thorough
def test_one_head_is_followed_to_the_end_of_the_episode():
    agent, state = beginning(heads=4, hidden_sizes=(8,), mask_probability=0.3)
    keys = jax.random.split(KEY, 4000)
    act = jax.jit(jax.vmap(lambda h, o, k: agent.act(state, ActInputs(h, o, k, True)), in_axes=(None, None, 0)))
    _, followed, masks = act(agent.init_hidden(SPEC), jnp.int32(0), keys)
    assert followed.drawn.all()
    np.testing.assert_allclose(np.bincount(followed.head, minlength=4) / 4000, 0.25, atol=0.04)  # 5 deviations
    np.testing.assert_allclose(masks.mean(0), 0.3, atol=0.04)
    q = np.asarray(agent.values_here(state, jnp.int32(1)))
    for head in range(4):
        action, after, _ = act(ActiveHead(jnp.bool_(True), jnp.int32(head)), jnp.int32(1), keys[:50])
        assert (after.head == head).all() and (action == q[head].argmax()).all()
        values = agent.action_values(state, ActiveHead(jnp.bool_(True), jnp.int32(head)), jnp.int32(1))
        np.testing.assert_allclose(values, q[head], rtol=1e-5)
    np.testing.assert_allclose(agent.action_values(state, agent.init_hidden(SPEC), jnp.int32(1)), q.mean(0), rtol=1e-4)


@pytest.mark.parametrize(
    ("values", "mask", "action"),
    [
        ([[0.0, 1, 0], [0, 1, 0], [9, 0, 0]], [1, 1, 1], 1),  # two heads against one that is very sure
        ([[0.0, 1, 0], [0, 1, 0], [9, 0, 0]], [1, 0, 1], 0),
        ([[0.0, 1, 0], [5, 0, 0]], [1, 1, 1], 0),  # as many votes: the mean decides
        ([[0.0, 0, 1], [5, 0, 0]], [0, 1, 1], 2),
    ],
)
def test_heads_vote_in_evaluation(values, mask, action):
    seen = spaces.Dict({"observation": spaces.Discrete(1), "action_mask": spaces.MultiBinary(3)})
    spec = Spec("Masked", seen, spaces.Discrete(3))
    agent = BootstrappedDQN(heads=len(values), hidden_sizes=(1,), prior_scale=0.0)
    state = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(lambda: agent.init(KEY, spec)))
    state = equinox.tree_at(lambda s: s.network.tops.layers[1].bias, state, np.array(values))
    observation = {"observation": jnp.int32(0), "action_mask": np.array(mask, jnp.int8)}
    chosen, hidden, _ = agent.act(state, ActInputs(agent.init_hidden(spec), observation, KEY, explore=False))
    assert int(chosen) == action and not hidden.drawn


@pytest.mark.thorough
def test_heads_may_be_networks_of_their_own():
    agent, state = beginning(shared_torso=False, hidden_sizes=(16,))
    assert state.network.torso.body.layers[0].weight.shape == (HEADS, STATES, 16)
    batch = batch_of([0], [0], [4], [1], [0], [[0, 1]])
    gradient = compute(jax.grad(agent.loss, has_aux=True), state.network, state.target, state.prior, batch)[0]
    assert not any(leaf[0].any() for leaf in jax.tree.leaves(gradient))
    assert all(leaf[1].any() for leaf in jax.tree.leaves(gradient.torso.body.layers[0]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": 0}, "heads of BootstrappedDQN is 1 or more, not 0"),
        ({"mask_probability": 0.0}, "mask-probability of BootstrappedDQN is above 0 and at most 1, not 0"),
        ({"num_envs": 8, "n_step": 3, "learning_starts": 20}, "after 24 steps, not 20"),
    ],
)
def test_what_it_cannot_do(options, words):
    with pytest.raises(ForageError, match=words):
        check(BootstrappedDQN(**options), SPEC)


def test_says_what_would_work():
    with pytest.raises(ForageError, match=r"Pendulum-v1 has Box\(1,\); try ppo, sac or td3"):
        check(AGENT, Spec("Pendulum-v1", SPEC.observation_space, spaces.Box(-2, 2, (1,))))
