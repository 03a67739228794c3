"""Smoothness and caution of RO2O, by hand on linear networks, and SAC-N at weights of zero."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from critic_helpers import inputs_of
from fine_tuning_helpers import SPEC, batch, linear_critics
from small import at_once, compute

from forage.agents.actor_critic.base import CriticKeys
from forage.config.help import declared
from forage.config.ranges import check_ranges
from forage.core.types import Clock, ForageError
from forage.nn.distributions import SquashedGaussian
from forage_papers.agents.actor_critic.offline_to_online.ro2o import RO2O, symmetric_kl
from forage_papers.agents.settings import SACN

CLOCK = Clock(jnp.int32(0), jnp.float32(100))
AGENT = RO2O(critics=2, hidden_sizes=(), neighbours=3)


def test_roughness_and_carelessness_by_hand():
    """Critics say 1 and 3 times the first number seen."""
    critics = linear_critics(at_once(lambda: AGENT.init(jax.random.key(0), SPEC)).critics, jnp.array([1.0, 3.0]), 0)
    seen, action = np.zeros((2, 3)), np.zeros((2, 2))
    near = np.zeros((2, 3, 3))
    near[0, :, 0] = [0.1, -0.3, 0.0]  # of the mean over critics of L: 0.8 * 5 * 0.01 = 0.04 and 0.2 * 5 * 0.09 = 0.09
    near[1, :, 0] = [0.2, 0.0, 0.0]  # 0.8 * 5 * 0.04 = 0.16
    rough = compute(AGENT.roughness, critics, seen, action, near)
    np.testing.assert_allclose(rough, (0.09 + 0.16) / 2, rtol=1e-5)
    careless = compute(AGENT.carelessness, critics, near, np.zeros((2, 3, 2)), 0.5)
    deviations = np.sqrt(2) * near[..., 0]  # of x and 3 x, with one less in the divisor
    np.testing.assert_allclose(careless, np.mean((0.5 * deviations) ** 2), rtol=1e-5)


def test_neighbours_lie_within_the_radius():
    seen = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    near = compute(AGENT.neighbourhood, seen, 0.1, jax.random.key(0))
    moved = (near - seen[:, None]) / seen.std(0)
    assert near.shape == (50, 3, 3) and 0.01 < np.abs(moved).max() <= 0.1001
    np.testing.assert_allclose(moved[0], moved[1], atol=1e-4)


def test_divergence_of_gaussians_by_hand():
    p = SquashedGaussian(jnp.array([0.0]), jnp.log(jnp.array([1.0])))
    q = SquashedGaussian(jnp.array([1.0]), jnp.log(jnp.array([2.0])))
    there = np.log(2) + (1 + 1) / 8 - 0.5  # log(s_q / s_p) + (s_p^2 + d^2) / (2 s_q^2) - 1/2
    back = -np.log(2) + (4 + 1) / 2 - 0.5
    np.testing.assert_allclose(compute(symmetric_kl, p, q), there + back, rtol=1e-5)


def test_the_policy_pays_for_its_worst_neighbour():
    """The smoothness adds its weight to SAC's loss, times the mean over observations of the largest divergence."""
    seen = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    key = jax.random.key(2)

    def find_results():
        state = AGENT.init(jax.random.key(0), SPEC)
        losses = []
        for smoothness in (0.0, 0.5):
            agent = dataclasses.replace(AGENT, policy_radius=1.0, policy_smoothness=smoothness)
            inputs = inputs_of(seen, noise=jnp.zeros((5, 2)), keys=CriticKeys(policy_q=key))
            losses.append(agent.actor_loss(state.actor, state, inputs)[0])
        near = AGENT.neighbourhood(seen, 1.0, jax.random.fold_in(key, 1))
        return losses, state.actor(seen), [state.actor(near[:, i]) for i in range(near.shape[1])]

    (without, paying), here, there = compute(find_results)

    def one_way(p, q):
        apart = (np.exp(2 * p.log_std) + (p.mean - q.mean) ** 2) / (2 * np.exp(2 * q.log_std))
        return (q.log_std - p.log_std + apart - 0.5).sum(-1)

    far = np.array([one_way(here, one) + one_way(one, here) for one in there]).max(0)
    assert far.min() > 1e-4
    np.testing.assert_allclose(paying - without, 0.5 * far.mean(), rtol=1e-3)


def test_without_its_terms_it_is_sac_n():
    plain = SACN(critics=2, hidden_sizes=(), optimiser="sgd", learning_rate=0.1)
    rough = dataclasses.replace(AGENT, optimiser="sgd", learning_rate=0.1, policy_radius=1.0, caution_radius=1.0)
    silent = dataclasses.replace(rough, value_smoothness=0.0, policy_smoothness=0.0, caution=0.0)

    def run_learn(agent):
        state = agent.learn(agent.init(jax.random.key(0), SPEC), batch(), CLOCK, jax.random.key(1))[0]
        return state.critics.body.layers[-1].weight, state.actor.head.weight

    same, other, differs = at_once(lambda: (run_learn(plain), run_learn(silent), run_learn(rough)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), same, other)
    assert not any(np.allclose(a, b, atol=1e-5) for a, b in zip(same, differs, strict=True))


def test_one_critic_differs_from_nobody():
    with pytest.raises(ForageError, match="critics of it is 2 or more, not 1"):
        check_ranges(RO2O(critics=1), "it")


def test_help_reads_the_row_that_it_builds_on():
    """Without importing the part."""
    meanings = declared.meanings("forage_papers.agents.settings:EDAC")
    assert declared.meanings("forage_papers.agents.actor_critic.offline_to_online.ro2o:RO2O").keys() > meanings.keys()
