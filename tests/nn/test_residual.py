"""Residual torsos against NumPy, their first weights, and widths that cannot be."""

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from small import at_once, compute
from tiers import first

from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.td3 import TD3
from forage.core import prng
from forage.core.types import ForageError, Spec
from forage.nn.networks import NetworkConfig, Torso
from forage.nn.residual import Residual

X = np.array([[0.5, -1.0, 2.0], [3.0, 0.0, -0.2]])
SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (2,), np.float32))
IMAGES = Spec("Screen", spaces.Box(0, 255, (64, 64, 3), np.uint8), SPEC.action_space)


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


def linear(layer, x):
    return x @ np.asarray(layer.weight) + np.asarray(layer.bias)


@pytest.mark.parametrize("outputs", first(1, [None, 2]))
def test_networks_are_their_formulas(outputs):
    for torso in ("simba", "bro"):
        network = at_once(lambda t=torso: Residual(prng.key(0), t, 3, (8, 8), outputs, "relu"))
        x = linear(network.enter, X)
        if torso == "bro":
            x = np.maximum(norm(x), 0)
        for block in network.blocks:
            if torso == "simba":
                assert block.up.weight.shape == (8, 32)
                x = x + linear(block.down, np.maximum(linear(block.up, norm(x)), 0))
            else:
                x = x + norm(linear(block.second, np.maximum(norm(linear(block.first, x)), 0)))
        x = norm(x) if torso == "simba" else x
        expected = x if outputs is None else linear(network.leave, x)
        np.testing.assert_allclose(compute(network, jnp.asarray(X, jnp.float32)), expected, rtol=2e-4, atol=1e-5)


def test_first_weights_are_the_authors():
    simba, bro = (at_once(lambda t=t: Residual(prng.key(1), t, 3, (64,), None, "relu")) for t in ("simba", "bro"))
    for network, gain in ((simba, 1.0), (bro, 2**0.5)):
        rows = np.asarray(network.enter.weight)
        np.testing.assert_allclose(rows @ rows.T, gain**2 * np.eye(3), atol=1e-4)
        assert NetworkConfig(torso=network.torso).head_gain == pytest.approx(gain)
    up, down = simba.blocks[0].up, simba.blocks[0].down
    for layer, inputs in ((up, 64), (down, 256)):
        assert np.std(layer.weight) == pytest.approx((2 / inputs) ** 0.5, rel=0.05)
        assert not np.any(layer.bias)


@pytest.mark.thorough
def test_policy_and_critics_have_the_torso():
    for agent in (SAC(torso="simba", hidden_sizes=(8,), value_sizes=(16, 16)), TD3(torso="bro", hidden_sizes=(8, 8))):
        state = at_once(lambda a=agent: a.init(prng.key(0), SPEC))
        assert isinstance(state.actor.torso.body, Residual) and isinstance(state.critics.body, Residual)
        assert len(state.critics.body.blocks) == 2 and state.critics.body.enter.weight.shape[:2] == (2, 5)
    assert not isinstance(
        at_once(lambda: Torso(prng.key(0), SPEC.observation_space, (8,), NetworkConfig())).body, Residual
    )


def test_says_what_a_torso_cannot_be():
    with pytest.raises(ForageError, match=r"^There is no torso 'resnet'; there are mlp, simba, bro, simba-v2\.$"):
        SAC(torso="resnet")
    with pytest.raises(ForageError, match=r"\(64, 32\) is not one width, repeated once for each block\.$"):
        SAC(torso="simba", value_sizes=(64, 32))
    with pytest.raises(ForageError, match=r"leave layer_norm, critic_norm and dropout out\.$"):
        TD3(torso="bro", dropout=0.1)
    with pytest.raises(ForageError, match=r"A simba torso reads numbers.*torso=mlp works\.$"):
        SAC(torso="simba").check(IMAGES)
