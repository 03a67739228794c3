"""Ensembles: their mean and spread by hand, members that learn alone, and rows that some do not see."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.ops.optimiser import adam
from forage_papers.nn.ensemble import Ensemble, bootstrap, disagreement

KEY = jax.random.key(0)


def test_disagreement_is_the_variance_over_members_averaged_over_outputs():
    predictions = jnp.array([[[0.0, 1.0], [2.0, 2.0]], [[4.0, 1.0], [2.0, 0.0]]])  # 2 members, 2 rows, 2 outputs
    np.testing.assert_allclose(disagreement(predictions), [(4 + 0) / 2, (0 + 1) / 2])


def test_members_differ_and_predict_as_mlps_would():
    ensemble = Ensemble(KEY, 3, (2, 4, 1))
    rows = jnp.array([[0.5, -1.0], [2.0, 0.0]])
    predictions = ensemble(rows)
    assert predictions.shape == (3, 2, 1) and ensemble.number == 3
    first, last = (jax.tree.map(np.asarray, layer) for layer in ensemble.members.layers)
    for member in range(3):
        hidden = np.maximum(np.asarray(rows) @ first.weight[member] + first.bias[member], 0)
        np.testing.assert_allclose(
            predictions[member], hidden @ last.weight[member] + last.bias[member], rtol=1e-5, atol=1e-6
        )
    assert (disagreement(predictions) > 0).all()


def test_the_loss_weighs_rows_for_each_member():
    ensemble = jax.tree.map(jnp.zeros_like, Ensemble(KEY, 2, (1, 1)))  # predicts 0
    targets, weight = jnp.array([[1.0], [3.0]]), jnp.array([[1.0, 0.0], [1.0, 2.0]])
    rows = jnp.zeros((2, 1))
    assert float(ensemble.loss(rows, targets)) == 2 * (1 + 9) / 2
    assert float(ensemble.loss(rows, targets, weight)) == (1 + 9) / 2 + (0 + 18) / 2
    assert float(ensemble.loss(rows, targets, cost=lambda p, t: jnp.abs(p - t).sum())) == 2 * (1 + 3) / 2


@pytest.mark.thorough
def test_members_come_to_agree_where_they_have_learned_and_nowhere_else():
    optimiser = adam(1e-2, flat=True)
    rows = jax.random.uniform(KEY, (64, 1), minval=-1, maxval=0)

    @jax.jit
    def run(ensemble):
        def step(carry, key):
            ensemble, state = carry
            weight = bootstrap(key, 64, 4, 0.8)
            gradient = jax.grad(lambda e: e.loss(rows, jnp.sin(3 * rows), weight))(ensemble)
            return optimiser.step(gradient, state, ensemble), None

        return jax.lax.scan(step, (ensemble, optimiser.init(ensemble)), jax.random.split(KEY, 400))[0][0]

    ensemble = run(Ensemble(KEY, 4, (1, 32, 32, 1)))
    seen, unseen = (disagreement(ensemble(jnp.array([[x]])))[0] for x in (-0.5, 3.0))
    np.testing.assert_allclose(ensemble(rows).mean(0), np.sin(3 * rows), atol=0.1)
    assert unseen > 20 * seen


def test_bootstrap_keeps_the_mean():
    weight = np.asarray(bootstrap(KEY, 4000, 3, 0.8))
    assert set(np.unique(weight)) == {0.0, np.float32(1 / np.float32(0.8))}
    np.testing.assert_allclose(weight.mean(0), 1.0, atol=0.05)
