"""H2O: the classifiers' training, the weights of transitions, and the critics' loss by hand."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fine_tuning_helpers import SPEC, batch, constant_critics
from small import at_once, compute

from forage.agents.actor_critic.base import UpdateInputs
from forage.core.types import AGENT as SIMULATED
from forage.core.types import DATASET, Clock
from forage_papers.agents.actor_critic.offline_to_online.h2o import H2O, Classifiers

AGENT = H2O(critics=2, hidden_sizes=(), classifier_sizes=(8,), conservatism=0.4, learning_rate=1e-2)
REAL = np.array([True, True, False, False])


def say(by_step):
    """Return classifiers with these two constant outputs of the second network."""
    found = at_once(lambda: Classifiers(jax.random.key(0), 3, 2, (8,)))
    bias = jnp.arctanh(jnp.asarray(by_step) / 2)
    return equinox.tree_at(lambda c: c.by_step.layers[-1].bias, jax.tree.map(jnp.zeros_like, found), bias)


def test_the_ratio_is_the_difference_of_outputs_and_bounded():
    rows, after = np.ones((4, 8), np.float32), np.ones((4, 3), np.float32)
    for outputs, ratio, gap in (((0.5, 1.5), np.exp(-1.0), 1.0), ((1.5, 0.5), 1.0, 1e-10)):
        found = compute(AGENT.trust, say(outputs), rows, after, REAL, jax.random.key(0))
        np.testing.assert_allclose(found[0], ratio, rtol=1e-5)
        np.testing.assert_allclose(found[1], gap, rtol=1e-4)


def test_classifiers_tell_steps_apart():
    """Rows differ in s' alone, so the second network must find the ratio."""
    random = np.random.default_rng(0)
    rows, real = random.normal(size=(64, 8)).astype(np.float32), np.arange(64) < 32
    rows[:, 7] = np.where(real, 1.0, -1.0)

    def fit():
        start = Classifiers(jax.random.key(0), 3, 2, (8,))
        step = lambda _, c: jax.tree.map(  # noqa: E731
            lambda x, g: x - 0.3 * g, c, jax.grad(Classifiers.loss)(c, rows, real)
        )
        return start.loss(rows, real), jax.lax.fori_loop(0, 200, step, start).log_ratio(rows)

    loss, ratio = compute(fit)
    assert abs(loss - 4 * np.log(2)) < 0.6 and ratio[:32].mean() > 1 and ratio[32:].mean() < -1


def test_the_critics_loss_by_hand():
    state = at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    critics = constant_critics(state.critics, [1.0, 3.0])
    now = jax.tree.map(lambda x: x[0], batch(source=SIMULATED).experience)
    target, ratio, gap = np.array([0.0, 2.0, 1.0, 3.0]), np.array([1.0, 1.0, 0.5, 0.1]), np.array([9.0, 9.0, 1.0, 3.0])
    inputs = UpdateInputs(now._replace(source=np.where(REAL, DATASET, SIMULATED)), now.action, np.ones(4))
    loss, _ = compute(AGENT.hybrid_loss, critics, inputs, target, ratio, gap)
    errors = 0.0
    for value in (1.0, 3.0):
        squares = (value - target) ** 2
        errors += squares[:2].mean() + (ratio * squares)[2:].mean()
    np.testing.assert_allclose(loss, errors / 2, rtol=1e-5)  # constant critics have no gap: log sum w exp Q = Q


@pytest.mark.thorough
def test_a_batch_of_one_kind_is_learned_from():
    for source in (SIMULATED, DATASET):
        state, metrics, error = at_once(
            lambda source=source: AGENT.learn(
                AGENT.init(jax.random.key(0), SPEC),
                batch(source=source),
                Clock(jnp.int32(0), jnp.float32(9)),
                jax.random.key(1),
            )
        )
        assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves((state.critics, metrics, error)))
