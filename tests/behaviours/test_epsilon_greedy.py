"""Epsilon-greedy: its schedule, its masks, and refusals."""

import jax.numpy as jnp
import numpy as np
import pytest
from behaviour_helpers import BOX, FOUR, PENDULUM, AlwaysAgent, OnPolicy, actions
from check_helpers import check
from gymnasium import spaces

from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.core.types import Clock, ForageError, Spec


@pytest.mark.parametrize(
    ("fraction", "steps", "expected"),
    [(0.1, 0, 1.0), (0.1, 50, 0.525), (0.1, 100, 0.05), (0.1, 900, 0.05), (1.0, 500, 0.525), (0.0, 1, 0.05)],
)
def test_epsilon_falls_linearly_and_stays(fraction, steps, expected):
    epsilon = EpsilonGreedy(fraction=fraction).epsilon(Clock(jnp.int32(steps), jnp.float32(1000)))
    assert float(epsilon) == pytest.approx(expected, abs=1e-6)


def test_shares_of_random_and_greedy_actions():
    behaviour = EpsilonGreedy(start=0.8, end=0.8)
    action, hidden, _, source, _ = actions(behaviour, AlwaysAgent(action=jnp.int32(2)), jnp.zeros(2), FOUR)
    shares = np.bincount(np.asarray(action), minlength=4) / 4000
    np.testing.assert_allclose(shares, [0.2, 0.2, 0.4, 0.2], atol=0.04)  # more than five standard deviations
    assert (hidden.agent == 7).all()  # the agent remembers, whoever chose
    assert (source == 0).all()


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_ends_are_exact_and_masks_hold(epsilon):
    behaviour = EpsilonGreedy(start=epsilon, end=epsilon)
    observation = {"observation": jnp.zeros(2), "action_mask": jnp.array([1, 0, 1, 0], jnp.int8)}
    action, *_ = actions(behaviour, AlwaysAgent(action=jnp.int32(2)), observation, FOUR)
    assert set(np.asarray(action).tolist()) == ({0, 2} if epsilon else {2})


def test_multi_discrete_actions_are_replaced_as_a_whole():
    spec = Spec("Two", BOX, spaces.MultiDiscrete([3, 5]))
    behaviour = EpsilonGreedy(start=0.5, end=0.5)
    observation = {"observation": jnp.zeros(2), "action_mask": jnp.array([1, 1, 0, 1, 1, 1, 1, 0], jnp.int8)}
    action, *_ = actions(behaviour, AlwaysAgent(action=jnp.array([2, 4])), observation, spec)
    pairs = {tuple(pair) for pair in np.asarray(action).tolist()}
    assert pairs == {(2, 4)} | {(a, b) for a in range(2) for b in range(4)}


def test_what_it_cannot_do():
    behaviour = EpsilonGreedy()
    check(behaviour, AlwaysAgent(), FOUR)
    with pytest.raises(ForageError, match=r"Pendulum-v1 has Box\(1,\)"):
        check(behaviour, AlwaysAgent(), PENDULUM)
    with pytest.raises(ForageError, match="OnPolicy learns only from actions that it chose itself"):
        check(behaviour, OnPolicy(), FOUR)
