"""Players of recordings and films: return-conditioned agents get the reward of each of their steps."""

from types import SimpleNamespace
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from forage.core.host import HostEnvironment, HostStep
from forage.core.ports import Agent, Environment
from forage.core.types import ForageError, Step
from forage.data.logged import Transitions
from forage.environments import spec_of
from forage.environments.adapters.on_host import OnHost
from forage.loop.policy import Policy
from forage.studies.datasets.make import find_lost
from forage.studies.record import actor, first_returns, play_steps, record_steps
from forage.studies.watch import play_host, play_native


class Corridor(Environment):
    """Four steps, each with the number of its action as reward; the observation carries no information."""

    observation_space = property(lambda self: spaces.Box(-1.0, 1.0, (2,), np.float32))
    action_space = property(lambda self: spaces.Discrete(2))
    horizon = property(lambda self: 4)

    def reset(self, key):
        return jnp.int32(0), jnp.ones(2)

    def step(self, state, action, key):
        over = state + 1 == 4
        return state + 1, Step(jnp.ones(2), action.astype(jnp.float32), over, jnp.bool_(False), {})


class Modest(Agent):
    """Chooses 1 up to a total reward of 2, then 0; without rewards it would reach 4."""

    on_policy: ClassVar[bool] = False
    offline: ClassVar[bool] = True
    return_conditioned: ClassVar[bool] = True
    num_envs: int = 1
    rollout_length: int = 1

    def check(self, spec):
        pass

    def init(self, key, spec):
        return ()

    def init_hidden(self, spec):
        return jnp.zeros(())

    def act(self, state, inputs):
        return (inputs.hidden < 2).astype(jnp.int32), inputs.hidden, ()

    def observe_reward(self, state, hidden, reward):
        return hidden + reward

    def learn(self, state, batch, clock, key):
        raise NotImplementedError


class NoFilm:
    """A film without viewers."""

    def take(self, *words):
        pass

    end = take


@pytest.fixture(scope="module")
def policy():
    return Policy(Modest(), (), spec_of(Corridor(), "Corridor"))


def test_recordings_tell_each_agent_of_a_batch_what_its_steps_paid(policy):
    transitions, returns = play_steps(policy, OnHost(Corridor(), 2), 16, 0.0, 0)
    np.testing.assert_array_equal(transitions.action.reshape(4, 4), np.tile([1, 1, 0, 0], (4, 1)))
    assert returns == [2.0] * 4
    first = first_returns(policy, OnHost(Corridor(), 2), 0.0, 0, 10, actor(policy))
    np.testing.assert_array_equal(first, 2.0)


def test_an_episode_that_the_data_set_cuts_is_not_whole(policy):
    """Three environments play four steps each for ten: the third's episode loses its last two."""
    transitions, returns = play_steps(policy, OnHost(Corridor(), 3), 10, 0.0, 0)
    assert transitions.lengths.tolist() == [4, 4, 2] and transitions.truncated.tolist() == [False] * 9 + [True]
    assert returns == [2.0, 2.0]


class Rows(HostEnvironment):
    """Two environments, written down: A's episodes terminate after two steps, B's reach the time limit of three.

    What is seen is 100 e + 10 k + t, after step t of episode k of environment e, so each reset shows another number.
    """

    def __init__(self):
        super().__init__("Rows", spaces.Box(0, 999, (1,), np.float32), spaces.Discrete(2), 2, 3)

    def _reset(self, seed):
        self.number, self.time = np.zeros(2, int), np.zeros(2, int)
        return self.observe

    @property
    def observe(self):
        return (100 * np.arange(2) + 10 * self.number + self.time).astype(np.float32)[:, None]

    def _send(self, action):
        pass

    def _receive(self, action):
        self.time += 1
        after, over = self.observe, self.time >= [2, 3]
        terminated, truncated = over & [True, False], over & [False, True]
        self.number, self.time = self.number + over, np.where(over, 0, self.time)
        return HostStep(Step(after, after[:, 0], terminated, truncated, {}), self.observe)


def play_rows(steps, play=record_steps, rows=Rows):
    """Record `steps` steps of `Rows` by a policy with actions that need no program."""
    agent = SimpleNamespace(init_hidden=lambda spec: (), return_conditioned=False)
    policy = SimpleNamespace(agent=agent, spec=SimpleNamespace(horizon=3), state=())
    act = lambda *given: (np.zeros(2, int), (), given[-1])  # noqa: E731
    if play is first_returns:
        return first_returns(policy, rows(), 0.0, 0, 10, act)
    return play(policy, rows(), steps, 0.0, 0, act)


def test_each_row_has_what_its_step_led_to_before_the_reset():
    """Four steps each: A plays two episodes, B one and the first step of another, cut by the end of the data."""
    found, returns, _ = play_rows(8)
    np.testing.assert_array_equal(found.observation[:, 0], [0, 1, 10, 11, 100, 101, 102, 110])
    np.testing.assert_array_equal(found.next_observation[:, 0], [1, 2, 11, 12, 101, 102, 103, 111])
    np.testing.assert_array_equal(found.reward, found.next_observation[:, 0])
    np.testing.assert_array_equal(np.flatnonzero(found.terminated), [1, 3])
    np.testing.assert_array_equal(np.flatnonzero(found.truncated), [6, 7])
    assert found.lengths.tolist() == [2, 2, 3, 1] and found.whole(3).tolist() == [True, True, True, False]
    assert returns == [1 + 2, 11 + 12, 101 + 102 + 103]


def test_the_last_row_of_a_file_ends_its_episode():
    """Of seven rows the last is B's third step: an end by the time limit, not a cut; of six it is a cut."""
    for steps, lengths, whole in ((7, [2, 2, 3], [True] * 3), (6, [2, 1, 3], [True, False, True])):
        found, returns, _ = play_rows(steps)
        assert found.lengths.tolist() == lengths and found.whole(3).tolist() == whole and len(returns) == sum(whole)
        assert found.truncated[-1] and not found.terminated[-1] and found.next_observation[-1, 0] == 103


class RowsWithoutRewards(Rows):
    """The first episode of A, and all of B's, have no reward."""

    no_reward_reason = "the rule says so"
    without = ((0,), range(9))
    lost = None

    def judge_singly(self):
        self.single = True

    def _receive(self, action):
        assert self.single
        number = self.number
        result = super()._receive(action)
        step = result.step
        over = np.asarray(step.terminated | step.truncated)
        gone = over & [k in ks for k, ks in zip(number.tolist(), self.without, strict=True)]
        self.lost = gone if gone.any() else None
        return HostStep(step._replace(terminated=step.terminated & ~gone, truncated=gone), self.observe)


def test_episodes_without_a_reward_are_left_out_and_counted():
    """Six steps each: of A's three episodes two have a reward, of B's two none."""
    found, returns, no_reward = play_rows(12, rows=RowsWithoutRewards)
    np.testing.assert_array_equal(found.observation[:, 0], [10, 11, 20, 21])
    assert found.numbers.tolist() == [0, 0, 1, 1] and found.terminated.tolist() == [False, True] * 2
    assert returns == [11 + 12, 21 + 22] and no_reward == 3
    RowsWithoutRewards.without = ((), range(9))
    assert play_rows(0, first_returns, RowsWithoutRewards).tolist() == [1 + 2]
    RowsWithoutRewards.without = (range(9), range(9))
    for play in (record_steps, first_returns):
        with pytest.raises(
            ForageError, match=r"^None of the \d recorded episodes of Rows has a reward, as the rule says"
        ):
            play_rows(12, play, RowsWithoutRewards)


def test_experience_around_a_lost_step_is_no_episode():
    """Two environments of four steps: the first answers in two turns, and loses the last of its second answer."""
    ended = np.array([0, 1, 0, 0, 1, 0, 1, 0], bool)
    lost = np.array([0, 0, 0, 1, 0, 1, 0, 0], bool)
    truncated = np.array([0, 0, 1, 1, 0, 1, 0, 1], bool)
    columns = np.zeros(8), np.zeros(8, int), np.arange(8.0), np.zeros(8), ended, truncated
    without, number = find_lost(Transitions(*columns), lost, 4)
    assert without.tolist() == [False, True, True, False, True, False, False] and number == 2


def test_films_tell_it_too(policy):
    for _ in range(2):  # the second episode begins anew
        assert play_native(policy, Corridor(), 10, 0, NoFilm()) == 2
        assert play_host(policy, OnHost(Corridor(), 1), 10, 0, NoFilm()) == 2
