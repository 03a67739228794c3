"""Boltzmann exploration: probabilities, temperatures, masks, and refusals."""

import jax.numpy as jnp
import numpy as np
import pytest
from behaviour_helpers import FOUR, PENDULUM, AlwaysAgent, OnPolicy, Values, actions, at
from check_helpers import check

from forage.agents.actor_critic.sac_discrete import SACDiscrete
from forage.agents.q_learning.dqn import DQN
from forage.config.ranges import check_ranges
from forage.core.types import ForageError
from forage_papers.behaviours.boltzmann import Boltzmann

AGENT = Values(action=jnp.array([1.0, 2.0, 0.0, 1.5]))


def shares(behaviour, observation=None, share=0.0, agent=AGENT):
    observation = jnp.zeros(2) if observation is None else observation
    action, hidden, _, source, _ = actions(behaviour, agent, observation, FOUR, share)
    assert (hidden.agent == 7).all() and (source == 0).all() and action.dtype == jnp.int32
    return np.bincount(np.asarray(action), minlength=4) / 4000


@pytest.mark.parametrize("share", [0.0, 0.25, 0.75])
def test_probabilities_are_those_of_the_formula(share):
    temperature = {0.0: 2.0, 0.25: 1.25, 0.75: 0.5}[share]  # from 2 to a half over the first half
    weights = np.exp(np.array([1.0, 2.0, 0.0, 1.5]) / temperature)
    behaviour = Boltzmann(initial_temperature=2.0, final_temperature=0.5, fraction=0.5)
    assert float(behaviour.temperature(at(share))) == pytest.approx(temperature)
    np.testing.assert_allclose(shares(behaviour, share=share), weights / weights.sum(), atol=0.04)


def test_masked_actions_are_never_taken_and_cold_is_greedy_among_the_rest():
    observation = {"observation": jnp.zeros(2), "action_mask": jnp.array([1, 0, 1, 1], jnp.int8)}
    weights = np.exp([1.0, -np.inf, 0.0, 1.5])
    np.testing.assert_allclose(shares(Boltzmann(), observation), weights / weights.sum(), atol=0.04)
    np.testing.assert_array_equal(shares(Boltzmann(1e-6, 1e-6), observation), [0, 0, 0, 1])


@pytest.mark.parametrize(("masked", "expected"), [(False, [0, 0.5, 0, 0.5]), (True, [0, 0, 0, 1])])
def test_actions_of_infinite_worth_are_drawn_alike(masked, expected):
    """As those that were never tried, of an agent that would try them first."""
    mask = jnp.array([1, 0 if masked else 1, 1, 1], jnp.int8)
    untried = Values(action=jnp.array([1.0, jnp.inf, 0.0, jnp.inf]))
    found = shares(Boltzmann(), {"observation": jnp.zeros(2), "action_mask": mask}, agent=untried)
    np.testing.assert_allclose(found, expected, atol=0.04)


def test_what_it_cannot_do():
    check(Boltzmann(), AGENT, FOUR)
    check(Boltzmann(), DQN(), FOUR)
    with pytest.raises(ForageError, match=r"Pendulum-v1 has Box\(1,\)"):
        check(Boltzmann(), AGENT, PENDULUM)
    with pytest.raises(ForageError, match="OnPolicy learns only from actions that it chose itself"):
        check(Boltzmann(), OnPolicy(), FOUR)
    for agent in (AlwaysAgent(), SACDiscrete()):
        with pytest.raises(ForageError, match=f"{type(agent).__name__} does not say; dqn does"):
            check(Boltzmann(), agent, FOUR)
    with pytest.raises(ForageError, match="final-temperature of it is above 0, not 0"):
        check_ranges(Boltzmann(final_temperature=0), "it")
