"""Noisy layers by the formula of their paper, and by the agents that explore with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from small import at_once

from forage.agents.q_learning.dqn import DQN
from forage.agents.q_learning.rainbow import Rainbow
from forage.core.types import ForageError, Spec
from forage.nn.layers import MLP
from forage.nn.noisy import NoisyLinear, add_noise, draw_noise, make_noisy

KEY = jax.random.key(0)
SPEC = Spec("Numbered", spaces.Box(-1, 1, (3,)), spaces.Discrete(2))


def test_noise_is_factorised_and_scaled_by_learned_deviations():
    layer = NoisyLinear(KEY, 4, 2, 0.5)
    assert np.all(layer.weight_noise == 0.25) and np.all(layer.bias_noise == 0.25)  # 0.5 / sqrt(4)
    assert np.abs(layer.weight).max() <= 0.5
    x = jnp.array([1.0, 2.0, 0.0, -1.0])
    np.testing.assert_allclose(layer(x), x @ layer.weight + layer.bias, rtol=1e-6)
    drawn = add_noise(layer, jnp.array([4.0, -9.0, 0.0, 1.0]), jnp.array([-1.0, 16.0]))
    rows, columns = np.array([2.0, -3.0, 0.0, 1.0]), np.array([-1.0, 4.0])  # f(x) = sign(x) sqrt |x|
    np.testing.assert_allclose(drawn.weight - layer.weight, 0.25 * np.outer(rows, columns), atol=1e-6)
    np.testing.assert_allclose(drawn.bias - layer.bias, 0.25 * columns, atol=1e-6)


def test_deviations_are_learned_by_the_noise_that_was_drawn():
    network = at_once(lambda: make_noisy(MLP(KEY, (3, 2), "relu"), KEY, 0.5))
    slope = jax.jit(jax.grad(lambda network: draw_noise(network, KEY)(jnp.ones(3)).sum()))(network).layers[0]
    (drawn,) = at_once(lambda: draw_noise(network, KEY)).layers
    np.testing.assert_allclose(slope.weight, 1.0)
    np.testing.assert_allclose(
        slope.weight_noise, (drawn.weight - network.layers[0].weight) / drawn.weight_noise, rtol=1e-4
    )
    assert np.abs(slope.weight_noise).min() > 0


def test_streams_are_noisy_and_dormant_units_are_refused():
    network = jax.eval_shape(lambda: Rainbow(hidden_sizes=(4,)).init(KEY, SPEC)).network
    for stream in (network.advantage, network.state_value):
        assert all(isinstance(layer, NoisyLinear) for layer in stream.layers)
    assert not any(isinstance(layer, NoisyLinear) for layer in network.torso.body.layers)
    with pytest.raises(ForageError, match="Dormant units are not looked for in noisy layers"):
        DQN(noisy=True, count_dormant=True)


@pytest.mark.thorough
def test_it_explores_by_noise_and_plays_without():
    from forage.core.ports import ActInputs

    agent = DQN(noisy=True, hidden_sizes=(4,))
    state = agent.init(KEY, SPEC)
    seen = jnp.array([0.1, -0.2, 0.3])
    actions = lambda explore: {  # noqa: E731
        int(agent.act(state, ActInputs((), seen, jax.random.key(number), explore))[0]) for number in range(40)
    }
    assert actions(True) == {0, 1} and len(actions(False)) == 1
