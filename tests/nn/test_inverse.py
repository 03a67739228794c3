"""Inverse dynamics: its error by hand, and an embedding of the features that actions change."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import at_once
from tiers import gate_cases

from forage.nn.inverse import InverseModel
from forage.ops.optimiser import adam
from forage.ops.rows import fit

KEY = jax.random.key(0)


def softmax(x):
    return np.exp(x) / np.exp(x).sum()


@pytest.mark.parametrize("kind", gate_cases(["one", "two", "box"], ["two"]))
def test_the_error_is_that_of_the_action(kind):
    space, action = {
        "one": (gymnasium.spaces.Discrete(3), jnp.int32(2)),
        "two": (gymnasium.spaces.MultiDiscrete([2, 3]), jnp.array([1, 0])),
        "box": (gymnasium.spaces.Box(-2, 6, (2,)), jnp.array([0.0, 9.0])),
    }[kind]
    model = at_once(lambda: InverseModel(KEY, (4,), space, (8,), 5, 16))
    now, after = jnp.arange(5.0), jnp.arange(5.0)[::-1] - 1
    out = np.asarray(model.head(jnp.concatenate([now, after])), np.float64)
    expected = {
        "one": lambda: -np.log(softmax(out)[2]),
        "two": lambda: -np.log(softmax(out[:2])[1]) - np.log(softmax(out[2:])[0]),
        "box": lambda: 0.5 * ((out - [-0.5, 1.0]) ** 2).sum(),  # in the unit box, no further out than its bounds
    }[kind]()
    np.testing.assert_allclose(model.error(now, after, action), expected, rtol=1e-5)


@pytest.mark.thorough
def test_the_embedding_keeps_what_the_action_moved_and_little_else():
    """Of four numbers the action moves the first; the others are noise."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 512)
    now, after = rng.normal(size=(2, 512, 4)).astype(np.float32)
    after[:, 0] = now[:, 0] + 2.0 * action - 1
    rows = (jnp.asarray(now), jnp.asarray(action), jnp.asarray(after))

    def loss(model, rows):
        now, action, after = rows
        embed = jax.vmap(model.embedding)
        return jax.vmap(model.error)(embed(now), embed(after), action).mean()

    @jax.jit
    def run(model, key):
        optimiser = adam(1e-2, flat=True)
        return fit(loss, optimiser, model, optimiser.init(model), rows, key, 150, 128)[0]

    model = run(InverseModel(KEY, (4,), gymnasium.spaces.Discrete(2), (32,), 4, 32), KEY)
    assert loss(model, rows) < 0.15 < 0.6 < loss(InverseModel(KEY, (4,), gymnasium.spaces.Discrete(2), (32,), 4), rows)
    slopes = jnp.abs(jax.vmap(jax.jacobian(model.embedding))(rows[0])).mean((0, 1))
    assert slopes[0] > 1.5 * slopes[1:].max()
