"""Dormant units: their detection, new weights and cleared optimiser state; by hand."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gymnasium import spaces
from small import at_once
from tiers import first

from forage.agents.q_learning.dqn import DQN, QNetwork
from forage.core import prng
from forage.core.types import Spec
from forage.nn.batch_norm import BatchStyle
from forage.nn.critics import ActionValue
from forage.nn.dormant import dormant, recycle_units, share_dormant, units_of
from forage.nn.layers import MLP
from forage.nn.networks import NetworkConfig
from forage.ops.optimiser import Optimiser, make_named_optimiser, reset_entries


def test_a_unit_is_dormant_by_its_share_of_the_layers_mean():
    # Means of sizes 2, 0.1, 0.9, 1: their mean is 1, so the scores are the means themselves.
    output = jnp.array([[3.0, 0.0, -0.8, 1.0], [-1.0, 0.2, 1.0, 1.0]])
    assert dormant(output, 0.0).tolist() == [False, False, False, False]
    assert dormant(output, 0.1001).tolist() == [False, True, False, False]
    assert dormant(output, 0.95).tolist() == [False, True, True, False]
    assert dormant(jnp.zeros((5, 2)), 0.0).tolist() == [True, True]


def network(weight, key=0):
    """A network of 2 inputs, layers of 3 and 2 units and one output, with the first layer's weights given."""
    made = MLP(prng.key(key), (2, 3, 2, 1), "relu")
    return equinox.tree_at(lambda n: (n.layers[0].weight, n.layers[0].bias), made, (weight, jnp.zeros(3)))


def test_only_dormant_units_are_drawn_anew():
    old = network(jnp.array([[1.0, -1.0, 2.0], [1.0, -1.0, 2.0]]))  # unit 1 is silent where inputs are positive
    old = equinox.tree_at(lambda n: n.layers[1].bias, old, jnp.array([10.0, 20.0]))  # both are awake
    fresh = at_once(lambda: MLP(prng.key(7), (2, 3, 2, 1), "relu"))
    x = jnp.ones((4, 2))

    def recycle(old):
        layers = units_of(old, old.activations(x), lambda n: n)
        return share_dormant(layers, 0.0), *recycle_units(old, fresh, layers, 0.0)

    share, new, changed = jax.jit(recycle)(old)
    assert float(share) == pytest.approx(1 / 5)

    expected = np.array(old.layers[0].weight)
    expected[:, 1] = fresh.layers[0].weight[:, 1]
    np.testing.assert_array_equal(new.layers[0].weight, expected)
    np.testing.assert_array_equal(new.layers[0].bias, [0.0, fresh.layers[0].bias[1], 0.0])
    expected = np.array(old.layers[1].weight)
    expected[1] = 0.0
    np.testing.assert_array_equal(new.layers[1].weight, expected)
    np.testing.assert_array_equal(new.layers[2].weight, old.layers[2].weight)
    np.testing.assert_array_equal(new(x), old(x))  # what the unit says is heard by nobody, as before
    assert [int(leaf.sum()) for leaf in jax.tree.leaves(changed)] == [2, 1, 2, 0, 0, 0]


def test_a_recycled_units_batch_norm_begins_anew():
    make = lambda key: MLP(prng.key(key), (2, 3, 1), "relu", batch_norm=BatchStyle())  # noqa: E731
    seen = lambda n: (n.scale, n.offset, n.mean, n.variance)  # noqa: E731
    old = equinox.tree_at(lambda n: n.layers[0].weight, make(0), jnp.array([[1.0, -1.0, 2.0], [1.0, -1.0, 2.0]]))
    old = equinox.tree_at(lambda n: n.layers[0].bias, old, jnp.zeros(3))
    worn = tuple(jnp.full(3, value) for value in (2.0, 3.0, 4.0, 1e-6))
    old = equinox.tree_at(lambda n: seen(n.batch_norms[1]), old, worn)
    new, _ = recycle_units(old, make(1), units_of(old, old.activations(jnp.ones((4, 2))), lambda n: n), 0.0)
    for value, before, fresh in zip(seen(new.batch_norms[1]), worn, (1.0, 0.0, 0.0, 1.0), strict=True):
        np.testing.assert_array_equal(value, [before[0], fresh, before[2]])
    np.testing.assert_array_equal(new.batch_norms[0].mean, old.batch_norms[0].mean)  # of what comes in


@pytest.mark.thorough
@pytest.mark.parametrize("flat", first(1, [False, True]))
def test_an_optimiser_forgets_what_has_changed_alone(flat):
    parameters = {"a": jnp.ones(2), "b": jnp.ones((2, 2))}
    optimiser = make_named_optimiser("adam", 0.1, 1.0, flat=flat)
    _, state = optimiser.step(parameters, optimiser.init(parameters), parameters)
    changed = {"a": jnp.array([True, False]), "b": jnp.array([[False, True], [False, False]])}
    found = reset_entries(state, optimiser.init(parameters), changed)
    moments = [leaf for leaf in jax.tree.leaves(found) if leaf.ndim]
    for moment in [jnp.concatenate([x.ravel() for x in moments[i : i + 2]]) for i in (0, 2)] if not flat else moments:
        assert np.flatnonzero(np.asarray(moment) == 0).tolist() == [0, 3]
    counts = [int(leaf) for leaf in jax.tree.leaves(found) if not leaf.ndim]
    assert counts == [1]  # steps go on


def test_what_an_optimiser_begins_with_need_not_be_zero():
    optimiser = Optimiser(optax.adagrad(0.1, initial_accumulator_value=0.5))
    _, state = optimiser.step(jnp.ones(2), optimiser.init(jnp.ones(2)), jnp.ones(2))
    found = reset_entries(state, optimiser.init(jnp.ones(2)), jnp.array([True, False]))
    assert jax.tree.leaves(found)[0].tolist() == [0.5, 1.5]


def test_statistics_of_many_parameters_together_stay():
    parameters = {"a": jnp.ones((2, 3))}
    optimiser = Optimiser(optax.adafactor(0.1, min_dim_size_to_factor=2))  # keeps rows and columns
    _, state = optimiser.step(parameters, optimiser.init(parameters), parameters)
    found = reset_entries(state, optimiser.init(parameters), {"a": jnp.zeros((2, 3), bool).at[0, 0].set(True)})
    for before, after in zip(jax.tree.leaves(state), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(before, after)


PICTURE = spaces.Box(0, 1, (10, 10, 4), np.bool_)
BOX = spaces.Box(-1.0, 1.0, (3,))


@pytest.mark.parametrize(("space", "silent"), [(BOX, 0), (PICTURE, 0), (PICTURE, 1)], ids=["box", "feature", "dense"])
@pytest.mark.thorough
def test_a_recycled_unit_is_heard_by_no_layer(space, silent):
    """After a unit is silenced by hand, recycling changes its weights and no output."""
    agent = DQN(hidden_sizes=(8,))
    spec = Spec("x", space, spaces.Discrete(2))
    old, fresh = (at_once(lambda key=key: QNetwork(prng.key(key), spec, agent)) for key in (0, 1))
    seen = jnp.asarray(np.stack([np.random.default_rng(i).random(space.shape) < 0.5 for i in range(5)]))
    where = old.units(seen)[silent].where
    old = equinox.tree_at(lambda n: where(n).weight, old, replace_fn=lambda w: w.at[:, 2].set(0.0))
    old = equinox.tree_at(lambda n: where(n).bias, old, replace_fn=lambda b: b.at[2].set(-100.0))
    layers = old.units(seen)
    assert bool(dormant(layers[silent].output, 0.0)[2])
    new, changed = at_once(lambda: recycle_units(old, fresh, layers, 0.0))
    np.testing.assert_array_equal(where(new).weight[:, 2], where(fresh).weight[:, 2])
    assert int(where(changed).bias[2]) == 1
    np.testing.assert_allclose(new.rows(seen), old.rows(seen), rtol=1e-5, atol=1e-6)
    # A unit that wakes up is heard by nobody until its outgoing weights have learned.
    awake = equinox.tree_at(lambda n: where(n).bias, new, replace_fn=lambda b: b.at[2].set(50.0))
    np.testing.assert_allclose(awake.rows(seen), old.rows(seen), rtol=1e-5, atol=1e-6)


@pytest.mark.thorough
def test_actions_beside_a_pictures_features_are_heard_as_before():
    critic = ActionValue(prng.key(0), PICTURE, 2, (8,), NetworkConfig())
    seen, action = jnp.ones((5, 10, 10, 4), bool), jnp.ones((5, 2))
    layers = critic.units(seen, action)
    assert [units.output.shape[1] for units in layers] == [16, 128, 8]
    _, changed = recycle_units(critic, critic, layers[1:2], 1e9)  # all units of the dense layer
    assert np.asarray(changed.body.layers[0].weight).all(1).tolist() == [True] * 128 + [False] * 2
