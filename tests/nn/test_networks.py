"""Networks: many images at once are the images one by one, however they are sliced; an LSTM by hand."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from forage.agents.policy_gradient.impala import IMPALA
from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.core.types import ForageError, Spec
from forage.nn import layers
from forage.nn.embedding import Embedding
from forage.nn.networks import LSTMCell, Torso

LARGE = spaces.Box(0, 255, (64, 64, 1), np.uint8)
PATCHES = 6 * 6 * 16 * 32 * 4  # bytes of one image's at the second layer, which has most


def torso(space=LARGE):
    return jax.jit(lambda key: Torso(key, space, (8,), "relu", gain=1.0))(jax.random.key(0))


def images(number):
    return np.random.default_rng(0).integers(0, 256, (number, *LARGE.shape)).astype(np.uint8)


def slice_rows(network, rows):
    """Return the number of slices that rows are processed in; 1 without a loop."""
    program = jax.make_jaxpr(lambda network, rows: network.rows(rows))(network, rows)
    loops = [equation for equation in program.eqns if equation.primitive.name == "scan"]
    return loops[0].params["length"] if loops else 1


@pytest.mark.parametrize(("number", "fits", "slices"), [(6, 4, 2), (6, 6, 1), (5, 4, 5), (4, 0, 4)])
@pytest.mark.thorough
def test_slices_are_as_large_as_fits(monkeypatch, number, fits, slices):
    monkeypatch.setattr(layers, "CACHE", fits * PATCHES)
    assert slice_rows(torso(), images(number)) == slices


@pytest.mark.thorough
def test_features_and_gradients_of_slices_are_those_of_one_by_one(monkeypatch):
    monkeypatch.setattr(layers, "CACHE", 2 * PATCHES)
    network, rows = torso(), images(6)
    assert slice_rows(network, rows) == 3

    def loss(features):
        return lambda network: jnp.mean(jnp.sin(features(network)))

    by_slices = jax.jit(jax.value_and_grad(loss(lambda network: network.rows(rows))))(network)
    one_by_one = jax.jit(jax.value_and_grad(loss(lambda network: jax.vmap(network)(rows))))(network)
    for ours, theirs in zip(jax.tree.leaves(by_slices), jax.tree.leaves(one_by_one), strict=True):
        assert np.any(np.asarray(theirs) != 0)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_small_images_and_vectors_are_not_sliced():
    assert slice_rows(torso(spaces.Box(0, 1, (10, 10, 4), np.float32)), np.zeros((256, 10, 10, 4), np.float32)) == 1
    assert slice_rows(torso(spaces.Box(-1, 1, (3,), np.float32)), np.zeros((256, 3), np.float32)) == 1


@pytest.mark.thorough
def test_a_stack_of_networks_takes_rows_as_each_does(monkeypatch):
    """As heads and seeds are: the slices are those of one network."""
    monkeypatch.setattr(layers, "CACHE", 2 * PATCHES)
    space, rows = (64, 64, 1), images(4) / 255
    stack = jax.jit(jax.vmap(lambda key: Embedding(key, space, (8,), 3)))(jax.random.split(jax.random.key(1), 2))
    found = jax.jit(jax.vmap(lambda network: network.rows(rows)))(stack)
    assert found.shape == (2, 4, 3)
    for index in range(2):
        network = jax.tree.map(lambda x, index=index: x[index], stack)
        np.testing.assert_allclose(found[index], jax.jit(jax.vmap(network))(rows), rtol=1e-4, atol=1e-5)


def test_an_lstms_step_by_hand():
    """c' = f c + i g, h' = o tanh c', of one unit with one input; its state is h and c."""
    cell = LSTMCell(jax.random.key(0), 1, 1, 1)
    x, state = np.array([0.3, -0.2, 0.5, 0.1]), np.array([0.4, -0.6])
    inner = np.array([[0.5, -1.0, 0.25, 2.0]])
    cell = equinox.tree_at(lambda c: (c.hidden.weight, c.hidden.bias), cell, (inner, np.zeros(4)))
    now, forget, new, out = x + 0.4 * inner[0]
    share = lambda number: 1 / (1 + np.exp(-number))  # noqa: E731
    memory = share(forget) * -0.6 + share(now) * np.tanh(new)
    found = cell.step(jnp.array(state), jnp.array(x))
    np.testing.assert_allclose(found, [share(out) * np.tanh(memory), memory], rtol=1e-5)
    np.testing.assert_array_equal(cell.output(found), found[:1])


@pytest.mark.parametrize("agent", [PPO, IMPALA, DQN], ids=lambda agent: agent.__name__)
def test_heads_read_an_lstms_output_and_the_state_has_its_cell(agent):
    spec = Spec("Numbered", spaces.Box(-1, 1, (3,)), spaces.Discrete(2))
    learner = agent(gru_size=5, cell="lstm", hidden_sizes=(4,))
    assert learner.init_hidden(spec).features.shape == (10,)
    network = jax.eval_shape(lambda: learner.init(jax.random.key(0), spec)).network
    head = network.actor.weight if agent is not DQN else network.advantage.layers[0].weight
    assert head.shape[0] == 5 and network.gru.inputs.weight.shape == (4 + 2, 20)
    with pytest.raises(ForageError, match="An LSTM needs units; add gru_size=64, or leave cell out"):
        agent(cell="lstm").check(spec)
