"""Who plays for recordings and films: agents that hear rewards are told what each of their steps paid."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from forage.core.ports import Agent, Environment
from forage.core.types import Step
from forage.environments import spec_of
from forage.environments.adapters.on_host import OnHost
from forage.loop.policy import Policy
from forage.studies.record import actor, first_returns, play
from forage.studies.watch import play_host, play_native


class Corridor(Environment):
    """Four steps, each of which pays the number of its action; what is seen says nothing."""

    observation_space = property(lambda self: spaces.Box(-1.0, 1.0, (2,), np.float32))
    action_space = property(lambda self: spaces.Discrete(2))
    horizon = property(lambda self: 4)

    def reset(self, key):
        return jnp.int32(0), jnp.ones(2)

    def step(self, state, action, key):
        over = state + 1 == 4
        return state + 1, Step(jnp.ones(2), action.astype(jnp.float32), over, jnp.bool_(False), {})


class Modest(Agent):
    """It takes 1 until it was paid 2, then 0: who tells it nothing gets 4 of it."""

    on_policy: ClassVar[bool] = False
    offline: ClassVar[bool] = True
    hears_rewards: ClassVar[bool] = True
    num_envs: int = 1
    rollout_length: int = 1

    def check(self, spec):
        pass

    def init(self, key, spec):
        return ()

    def hidden(self, spec):
        return jnp.zeros(())

    def act(self, state, hidden, observation, key, explore, noise=None):
        return (hidden < 2).astype(jnp.int32), hidden, ()

    def paid(self, state, hidden, reward):
        return hidden + reward

    def learn(self, state, batch, clock, key):
        raise NotImplementedError


class NoFilm:
    """A film that nobody sees."""

    def take(self, *words):
        pass

    end = take


@pytest.fixture(scope="module")
def policy():
    return Policy(Modest(), (), spec_of(Corridor(), "Corridor"))


def test_recordings_tell_each_agent_of_a_batch_what_its_steps_paid(policy):
    transitions, returns = play(policy, OnHost(Corridor(), 2), 16, 0.0, 0)
    np.testing.assert_array_equal(transitions.action.reshape(4, 4), np.tile([1, 1, 0, 0], (4, 1)))
    assert returns == [2.0] * 4
    first = first_returns(policy, OnHost(Corridor(), 2), 0.0, 0, 10, actor(policy))
    np.testing.assert_array_equal(first, 2.0)


def test_an_episode_that_the_data_set_cuts_is_not_whole(policy):
    """Three environments play four steps each for ten: the third's episode loses its last two."""
    transitions, returns = play(policy, OnHost(Corridor(), 3), 10, 0.0, 0)
    assert transitions.lengths.tolist() == [4, 4, 2] and transitions.truncated.tolist() == [False] * 9 + [True]
    assert returns == [2.0, 2.0]


def test_films_tell_it_too(policy):
    for _ in range(2):  # the second episode begins anew
        assert play_native(policy, Corridor(), 10, 0, NoFilm()) == 2
        assert play_host(policy, OnHost(Corridor(), 1), 10, 0, NoFilm()) == 2
