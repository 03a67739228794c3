"""SimBaV2: networks against NumPy, weights that stay on the sphere, scaled rewards, and the target's shares."""

from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from critic_helpers import inputs_of
from fine_tuning_helpers import SPEC, batch
from small import at_once, compute

from forage.agents.actor_critic.sac import SAC
from forage.core.types import Clock, Experience, ForageError
from forage.nn.critics import Atoms
from forage.nn.hypersphere import Hypersphere, is_unit
from forage.nn.normalise import RunningNorm
from forage_papers.agents.actor_critic.simba_v2 import Returns, SimBaV2

X = np.array([[0.5, -1.0, 2.0], [3.0, 0.0, -0.2]])
SMALL: dict[str, Any] = {
    "hidden_sizes": (4,),
    "value_sizes": (4, 4),
    "atoms": 5,
    "limit": 2.0,
    "normalise_observation": False,
}
CLOCK = Clock(jnp.int32(50), jnp.float32(100))


def unit(x, axis=-1):
    return x / np.linalg.norm(x, axis=axis, keepdims=True)


def test_networks_are_their_formulas():
    network = at_once(lambda: Hypersphere(jax.random.key(0), 3, (8, 8), 2, "relu"))
    found = compute(lambda: (network(jnp.asarray(X, jnp.float32)), network.activations(jnp.asarray(X, jnp.float32))))
    weight = lambda layer: np.asarray(layer.weight)  # noqa: E731
    x = unit(np.sqrt(2 / 8) * (unit(np.c_[X, [3.0, 3.0]]) @ weight(network.enter)))
    for block in network.blocks:
        assert block.up.weight.shape == (8, 32)
        inside = np.maximum(np.sqrt(2 / 8) / 2 * (x @ weight(block.up)), 0)
        x = unit(x + (unit(inside @ weight(block.down)) - x) / 3)  # steps begin at 1 / (blocks + 1)
    np.testing.assert_allclose(found[0], x @ weight(network.leave.first) @ weight(network.leave.second), atol=1e-5)
    np.testing.assert_allclose(found[1][1], inside, atol=1e-5)


def lengths(network):
    layers = [node for node in jax.tree.leaves(network, is_leaf=is_unit) if is_unit(node)]
    return np.concatenate([np.linalg.norm(layer.weight, axis=-2).reshape(-1) for layer in layers])


@pytest.mark.thorough
def test_an_update_moves_weights_along_the_sphere_and_at_half_the_rate_by_half_the_run():
    agent = SimBaV2(**SMALL, learning_rate=0.2, final_learning_rate=0.0)

    def run_learn():
        state = agent.init(jax.random.key(0), SPEC)
        later = [agent.learn(state, batch(), clock, jax.random.key(1))[0] for clock in (CLOCK, Clock(100, 100.0))]
        return state, *later

    state, half, over = compute(run_learn)
    for network in (half.actor, half.critics):
        np.testing.assert_allclose(lengths(network), 1.0, rtol=1e-5)
    moved = np.abs(half.critics.body.leave.bias - state.critics.body.leave.bias)
    np.testing.assert_allclose(moved.max(), 0.1, rtol=1e-3)  # Adam's first step is as long as its rate
    assert np.abs(half.critics.body.enter.weight - state.critics.body.enter.weight).max() > 0.01
    np.testing.assert_array_equal(over.critics.body.enter.weight, state.critics.body.enter.weight)
    assert len(lengths(half.actor)) == 4 + 16 + 4 + (4 + 2) * 2  # two heads of two layers each


def test_the_target_by_hand():
    """Five atoms from -2 to 2. The second critic's mean is less, so its shares count: all at 1, and at -2 and 0."""
    agent = SimBaV2(**SMALL, discount=0.5, backup_entropy=False)
    state = at_once(lambda: agent.init(jax.random.key(0), SPEC))
    sure = jnp.array([[0, 0, 0, 0, 50.0], [0, 0, 0, 50.0, 0]])
    where = lambda c: (c.body.leave.second.weight, c.body.leave.bias)  # noqa: E731
    told = equinox.tree_at(where, state.target_critics, (jnp.zeros((2, 4, 5)), sure))
    state = state._replace(target_critics=told)
    reward, ended = jnp.array([1.0, 0.25, 3.0, 1.0]), jnp.array([False, False, False, True])
    inputs = inputs_of(jnp.zeros((4, 3)), reward=reward, terminated=ended, next_noise=jnp.zeros((4, 2)))
    target = compute(lambda: agent.target(state, inputs))
    # r + 0.5 of the atom 1: 1.5, half at 1 and half at 2; 0.75; beyond the end; after an end the reward alone
    expected = [[0, 0, 0, 0.5, 0.5], [0, 0, 0.25, 0.75, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 0]]
    np.testing.assert_allclose(target.T, expected, atol=1e-5)


def test_the_loss_is_the_cross_entropy_of_the_shares():
    logits = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    share = np.random.default_rng(1).dirichlet(np.ones(5), 3).astype(np.float32)
    found = compute(lambda: Atoms(5, -2.0, 2.0).loss(logits, share.T))
    log = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    np.testing.assert_allclose(found, -(share * log).sum(-1), rtol=1e-5)


@pytest.mark.thorough
def test_rewards_are_divided_by_the_size_of_returns():
    reward = jnp.array([[1.0], [3.0], [2.0], [10.0]])
    ends = jnp.array([[False], [True], [False], [False]])
    no, seen = jnp.zeros((4, 1), bool), jnp.zeros((4, 1, 3))
    rollout = Experience(seen, seen, reward, seen, ends, no, jnp.zeros((4, 1), jnp.int32), ())
    first = Returns(jnp.zeros(1), RunningNorm.from_shape(()), jnp.zeros(()))
    returns, size, narrow = compute(
        lambda: (
            first.add_rollout(rollout, 0.5),
            *(first.add_rollout(rollout, 0.5).size(limit) for limit in (5.0, 1.0)),
        )
    )
    told = [1.0, 3.5, 2.0, 11.0]
    np.testing.assert_allclose(returns.running, [11.0])
    np.testing.assert_allclose(size, np.std(told), rtol=1e-5)
    np.testing.assert_allclose(narrow, 11.0, rtol=1e-6)  # by the largest of them

    agent = SimBaV2(**SMALL)
    state = at_once(lambda: agent.init(jax.random.key(0), SPEC))._replace(returns=returns)
    now = jax.tree.map(lambda x: x[0], batch().experience)
    read = compute(lambda: agent.normalise_batch(state, now)).reward
    np.testing.assert_allclose(read, now.reward / max(np.std(told), 11.0 / 2), rtol=1e-5)


@pytest.mark.thorough
def test_other_agents_of_the_kit_have_the_torso():
    agent = SAC(torso="simba-v2", hidden_sizes=(4,), value_sizes=(4, 4), learning_rate=0.1)

    def run_learn():
        state = agent.init(jax.random.key(0), SPEC)
        return agent.learn(state, batch(), CLOCK, jax.random.key(1))[0]

    state = compute(run_learn)
    for network in (state.actor, state.critics):
        assert isinstance(network.torso.body if network is state.actor else network.body, Hypersphere)
        np.testing.assert_allclose(lengths(network), 1.0, rtol=1e-5)


def test_what_is_refused():
    with pytest.raises(ForageError, match="SimBaV2 has networks of its own; leave torso out"):
        SimBaV2(torso="simba")
    with pytest.raises(ForageError, match="leave bins out"):
        SimBaV2(bins=11)
    with pytest.raises(ForageError, match="leave recycle_interval out"):
        SAC(torso="simba-v2", recycle_interval=100)
    assert SimBaV2(normalise_observation=False).needs_whole_dataset  # so that a folder of arrays is refused as well
    with pytest.raises(ForageError, match="--scale-reward false"):
        SimBaV2(**SMALL).init_from_dataset(None, batch().experience)
