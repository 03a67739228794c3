"""Epsilon-greedy: its schedule, its masks, and what it refuses."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.ports import Agent
from forage.types import Clock, ForageError, Spec


class Always(Agent):
    """Chooses what it is told to, and says so."""

    on_policy: ClassVar[bool] = False
    action: jax.Array | int = 0
    num_envs: int = 1
    rollout_length: int = 1

    def check(self, spec):
        pass

    def init(self, key, spec):
        return ()

    def act(self, state, hidden, observation, key, explore):
        return self.action, hidden + 1, {"explore": explore}

    def learn(self, state, batch, clock, key):
        raise NotImplementedError


class OnPolicy(Always):
    on_policy: ClassVar[bool] = True


SPACE = spaces.Box(-1, 1, (2,))
FOUR = Spec("Four", SPACE, spaces.Discrete(4))


def actions(behaviour, agent, observation, spec, steps, count=4000):
    clock = Clock(jnp.int32(steps), jnp.float32(1000))

    def one(key):
        return behaviour.act((), agent, (), jnp.int32(6), observation, spec, clock, key)

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), count))


@pytest.mark.parametrize(
    ("fraction", "steps", "expected"),
    [(0.1, 0, 1.0), (0.1, 50, 0.525), (0.1, 100, 0.05), (0.1, 900, 0.05), (1.0, 500, 0.525), (0.0, 1, 0.05)],
)
def test_epsilon_falls_linearly_and_stays(fraction, steps, expected):
    epsilon = EpsilonGreedy(fraction=fraction).epsilon(Clock(jnp.int32(steps), jnp.float32(1000)))
    assert float(epsilon) == pytest.approx(expected, abs=1e-6)


def test_shares_of_random_and_greedy_actions():
    behaviour = EpsilonGreedy(start=0.8, end=0.8)
    action, hidden, _, source = actions(behaviour, Always(action=jnp.int32(2)), jnp.zeros(2), FOUR, 0)
    shares = np.bincount(np.asarray(action), minlength=4) / 4000
    np.testing.assert_allclose(shares, [0.2, 0.2, 0.4, 0.2], atol=0.04)  # more than five standard deviations
    assert (hidden == 7).all()  # the agent remembers, whoever chose
    assert (source == 0).all()


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_ends_are_exact_and_masks_hold(epsilon):
    behaviour = EpsilonGreedy(start=epsilon, end=epsilon)
    observation = {"observation": jnp.zeros(2), "action_mask": jnp.array([1, 0, 1, 0], jnp.int8)}
    action, *_ = actions(behaviour, Always(action=jnp.int32(2)), observation, FOUR, 0)
    assert set(np.asarray(action).tolist()) == ({0, 2} if epsilon else {2})


def test_multi_discrete_actions_are_replaced_as_a_whole():
    spec = Spec("Two", SPACE, spaces.MultiDiscrete([3, 5]))
    behaviour = EpsilonGreedy(start=0.5, end=0.5)
    observation = {"observation": jnp.zeros(2), "action_mask": jnp.array([1, 1, 0, 1, 1, 1, 1, 0], jnp.int8)}
    action, *_ = actions(behaviour, Always(action=jnp.array([2, 4])), observation, spec, 0)
    pairs = {tuple(pair) for pair in np.asarray(action).tolist()}
    assert pairs == {(2, 4)} | {(a, b) for a in range(2) for b in range(4)}


def test_what_it_cannot_do():
    behaviour = EpsilonGreedy()
    behaviour.check(Always(action=jnp.int32(0)), FOUR)
    with pytest.raises(ForageError, match=r"Pendulum-v1 has Box\(1,\)"):
        behaviour.check(Always(action=jnp.int32(0)), Spec("Pendulum-v1", SPACE, spaces.Box(-2, 2, (1,))))
    with pytest.raises(ForageError, match="OnPolicy learns only from actions it chose itself"):
        behaviour.check(OnPolicy(action=jnp.int32(0)), FOUR)
