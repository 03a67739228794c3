"""Agents of papers that change defaults of SAC: their targets, their policies' losses and their deviations."""

import jax
import jax.numpy as jnp
import numpy as np
from critic_helpers import inputs_of
from small import compute
from test_sac import sac_state

from forage_papers.agents.actor_critic.bro import BRO
from forage_papers.agents.actor_critic.simba import SimBa
from forage_papers.agents.actor_critic.simba_v2 import SimBaV2
from forage_papers.agents.settings import RLPD, WSRL


def test_targets_without_entropy():
    """RLPD can and WSRL does leave entropy out of the target, the least of the drawn critics' values."""
    for agent in (RLPD(discount=0.9, backup_entropy=False, critics=2), WSRL(discount=0.9, critics=2)):
        keys = agent.critic_keys(jax.random.key(0))
        inputs = inputs_of(np.zeros((1, 3)), reward=1.0, next_noise=np.ones((1, 2)), keys=keys)
        np.testing.assert_allclose(compute(agent.target, sac_state(agent), inputs), 1 + 0.9 * 6, rtol=1e-6)


def test_wsrls_policy_climbs_the_least_of_all_critics_and_rlpds_their_mean():
    for agent, value in ((WSRL(critics=2), 3.0), (RLPD(critics=2), 4.0)):
        state = sac_state(agent)
        inputs = inputs_of(np.zeros((1, 3)), noise=np.zeros((1, 2)))
        loss, (log_probability, *_) = compute(agent.actor_loss, state.actor, state, inputs)
        np.testing.assert_allclose(loss, log_probability[0] - value, rtol=1e-5)


def test_wsrls_entropy_target_is_minus_one_a_dimension():
    # Their configuration says 0, for which their program takes -1 a dimension.
    slope = compute(jax.grad(lambda x: WSRL().temperature_loss(x, jnp.array([2.0]), 2)), jnp.float32(0))
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)


def test_deviations_are_squashed():
    assert SimBa().squash_deviation and SimBaV2().squash_deviation and BRO().squash_deviation  # as their authors'
