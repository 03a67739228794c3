"""Layers: their initial weights."""

import jax
import numpy as np
import pytest
from gymnasium import spaces
from small import at_once

from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.td3 import TD3
from forage.core.types import ForageError, Spec

SPEC = Spec("x", spaces.Box(-1.0, 1.0, (32,), np.float32), spaces.Box(-1.0, 1.0, (16,), np.float32))


@pytest.mark.parametrize("kind", [SAC, TD3])
@pytest.mark.parametrize(
    ("how", "bound", "deviation"),  # of a layer of 48 inputs and 64 units
    [
        ("uniform", 48**-0.5, (3 * 48) ** -0.5),
        ("glorot", (6 / 112) ** 0.5, (2 / 112) ** 0.5),
        ("lecun", 0.33, 48**-0.5),
    ],
)
def test_weights_begin_as_wide_as_asked(kind, how, bound, deviation):
    agent = kind(hidden_sizes=(64,), value_sizes=(64,), first_weights=how)
    state = at_once(lambda: agent.init(jax.random.key(0), SPEC))
    for critic in range(2):
        weight = state.critics.body.layers[0].weight[critic]
        np.testing.assert_allclose(weight.std(), deviation, rtol=0.05)
        assert 0.95 * bound < np.abs(weight).max() <= bound
    assert (np.abs(state.critics.body.layers[0].bias).max() > 0) == (how == "uniform")
    first, last = state.actor.torso.body.layers[0], state.actor.head
    assert (np.abs(first.bias).max() > 0) == (np.abs(last.bias).max() > 0) == (how == "uniform")
    assert (state.critics.body.layers[0].weight[0] != state.critics.body.layers[0].weight[1]).all()


def test_orthogonal_weights_have_a_gain_in_every_layer():
    agent = SAC(hidden_sizes=(16,), first_weights="orthogonal")
    state = at_once(lambda: agent.init(jax.random.key(0), SPEC))
    for weight in (state.actor.torso.body.layers[0].weight, state.critics.body.layers[-1].weight[0]):
        np.testing.assert_allclose(weight.T @ weight, 2 * np.eye(weight.shape[1]), atol=1e-4)


def test_says_which_first_weights_there_are():
    with pytest.raises(ForageError, match="first_weights of SAC is one of uniform, glorot"):
        SAC(first_weights="xavier")
    with pytest.raises(ForageError, match="leave first_weights out"):
        SAC(torso="simba", hidden_sizes=(8,), first_weights="glorot")
