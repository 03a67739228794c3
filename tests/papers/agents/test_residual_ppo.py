"""PPO over a frozen policy: executed actions, corrections recovered in learning, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from fine_tuning_helpers import SPEC
from small import compute

from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError
from forage_papers.agents.policy_gradient.residual_ppo import ResidualPPO

BOX = np.array([1.0, -1.5], np.float32)  # what the base does: in the unit box 0.5 and -0.75
SIZES = {"num_envs": 2, "rollout_length": 4, "minibatches": 1, "epochs": 1, "hidden_sizes": (4,)}
AGENT = ResidualPPO(**SIZES, base=lambda observation: jnp.asarray(BOX), residual_scale=0.2)


def test_learning_finds_the_correction_that_acting_drew():
    """The noise is the correction, as the mean is nearly 0 and the deviation 1; the first ratio is 1."""
    noise = np.random.default_rng(0).normal(size=(4, 2, 2)).astype(np.float32)

    def live():
        state, seen = AGENT.init(jax.random.key(0), SPEC), jnp.ones((4, 2, 3))
        act = lambda seen, noise: AGENT.act(state, ActInputs((), seen, jax.random.key(1), True, noise))[0]  # noqa: E731
        action = jax.vmap(jax.vmap(act))(seen, jnp.asarray(noise))
        no = jnp.zeros((4, 2), bool)
        rows = Experience(seen, action, action[..., 0], seen, no, no, jnp.zeros((4, 2), jnp.int32), ())
        batch = Batch(rows, jnp.ones(2), jnp.arange(2))
        metrics = AGENT.learn(state, batch, Clock(jnp.int32(8), jnp.float32(100)), jax.random.key(2))[1]
        first = AGENT.network_inputs(state, rows)
        density = AGENT.log_probability(state, seen[0], action[0])
        return act(seen[0, 0], jnp.zeros(2)), action, first, metrics, density

    mean, action, looked, metrics, density = compute(live)
    np.testing.assert_allclose(mean, BOX, atol=0.02)  # the last layer is small at first
    np.testing.assert_allclose(action - mean, 2.0 * 0.2 * noise, atol=1e-5)  # the box is twice the unit box
    np.testing.assert_allclose(looked.action - looked.action.mean((0, 1)), 2 * (noise - noise.mean((0, 1))), atol=1e-4)
    np.testing.assert_allclose(looked.observation["base"], np.broadcast_to([0.5, -0.75], (4, 2, 2)), rtol=1e-6)
    assert abs(metrics["approximate_kl"]) < 1e-5
    normal = -0.5 * np.sum(noise[0] ** 2 + np.log(2 * np.pi), axis=1)
    np.testing.assert_allclose(density, normal - 2 * np.log(0.2), rtol=1e-3)


def test_what_is_refused():
    with pytest.raises(ForageError, match="name the run of one with --base RUN"):
        check(ResidualPPO(**SIZES), SPEC)
    with pytest.raises(ForageError, match="leave gru_size"):
        check(ResidualPPO(**SIZES, gru_size=4, base=lambda observation: jnp.asarray(BOX)), SPEC)
