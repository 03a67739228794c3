"""Starts on the host: a state that was kept is gone back to, by the same parts as on the device."""

import jax
import numpy as np
import pytest
from test_schedule import ToldStarts

from forage.config.resolve import resolve
from forage.core.host import HostEnvironment
from forage.core.types import Clock, Experience, ForageError
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment
from forage.environments.adapters.on_host import OnHost
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea import DeepSea
from forage.loop.host.starts import FRESH, HostStarts, unpack_state
from forage.starts.levels import Levels
from forage.starts.reset import Reset

PPO = {"num_envs": 4, "rollout_length": 16, "minibatches": 2, "epochs": 1, "hidden_sizes": (8,)}


def random_actions(space, number, seed):
    generator = np.random.default_rng(seed)
    return generator.integers(0, space.n, number).astype(np.int32)


def same(left, right):
    return all(map(np.array_equal, jax.tree.leaves(left), jax.tree.leaves(right)))


def sea(num_envs):
    return OnHost(DeepSea(6), num_envs, "Sea")


@pytest.mark.parametrize(
    "make",
    [
        lambda: OnHost(CartPole(), 3),
        lambda: GymnasiumEnvironment("CartPole-v1", 3),
        lambda: GymnasiumEnvironment("Taxi-v4", 3),
        pytest.param(
            lambda: GymnasiumEnvironment("ALE/MontezumaRevenge-v5", 3, repeat_action_probability=0.0),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_state_is_gone_back_to_in_any_environment(make):
    """Two environments put into one state give its observation, and with the same actions stay equal."""
    environment = make()
    assert environment.returns
    observation = environment.reset(1)
    actions = [random_actions(environment.action_space, 3, seed) for seed in range(12)]
    for action in actions[:5]:
        _, observation = environment.step(action)
    kept = environment.take(0)
    for action in actions[5:]:
        environment.step(action)
    for index in (1, 2):
        assert same(environment.put(index, kept), jax.tree.map(lambda x: x[0], observation))
    step, _ = environment.step(np.repeat(actions[0][:1], 3, 0))
    assert same(*(jax.tree.map(lambda x, i=i: x[i], step.observation) for i in (1, 2)))
    fresh = environment.put(1, None)
    assert not same(fresh, environment.put(2, kept))
    environment.close()


def test_chance_is_drawn_anew_after_going_back():
    environment = GymnasiumEnvironment("FrozenLake-v1", 1)
    environment.reset(0)
    kept, seen = environment.take(0), set()
    for _ in range(20):  # on ice a step goes where it is meant to in a third of cases
        environment.put(0, kept)
        seen.add(int(environment.step(np.array([2]))[0].observation[0]))
    assert len(seen) > 1


def rollout_of(steps, actions, first):
    """Return the experience of a batch of environments."""
    before = [first, *(s.observation for s in steps[:-1])]
    told = jax.tree.map(lambda *x: np.stack(x), *(s.step for s in steps))
    source = np.zeros(told.terminated.shape, np.int32)
    ends = told.terminated, told.truncated
    return Experience(np.stack(before), np.stack(actions), told.reward, told.observation, *ends, source, ())


class HeardReset(Reset):
    """Cuts episodes after four steps, and keeps the visited states that `report` gets of the last rollout."""

    every_state = cuts = True

    def cut(self, mark, length):
        return length >= 4

    def report(self, state, rollout, review):
        return review.visited


@pytest.mark.parametrize("depth", [6, 4])
def test_where_an_episode_was_cut_can_be_gone_back_to(depth):
    """In a sea of six steps; in one of four, the end of the episode comes with the cut."""
    environment = OnHost(DeepSea(depth), 2, "Sea")
    starts = HostStarts(HeardReset(), environment, environment.spec, seed=0)
    first, age = environment.reset(0), np.zeros(2, np.int32)
    steps, actions = [], []
    for time in range(6):
        actions.append(random_actions(environment.action_space, 2, time))
        steps.append(starts.after_step(environment.step(actions[-1]), age))
        age = np.where(steps[-1].step.terminated | steps[-1].step.truncated, 0, age + 1)
    rollout = rollout_of(steps, actions, first)
    starts.report(rollout, Clock(np.int32(0), np.float32(100)), np.ones(2, bool))
    assert rollout.ended[:, 0].tolist() == [False, False, False, True, False, False]
    visited = starts.state.part
    assert visited.fresh.all() and visited.gone[:, 0].tolist() == [False, False, False, depth == 4, False, False]
    numbers = np.asarray(visited.env_states.number)
    np.testing.assert_array_equal(numbers == FRESH, visited.gone)
    assert set(starts.saved) == set(numbers.ravel()) - {FRESH}
    for time, index in zip(*np.nonzero(numbers != FRESH), strict=True):
        seen = environment.put(0, unpack_state(starts.saved[int(numbers[time, index])]))
        np.testing.assert_array_equal(seen, rollout.next_observation[time, index])


class Forgetful(HostEnvironment):
    """Cannot be put back."""

    def __init__(self, num_envs):
        space = DeepSea(6)
        super().__init__("Forgetful", space.observation_space, space.action_space, num_envs)

    def _reset(self, seed):
        raise NotImplementedError

    def _receive(self, action):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("environment", "starts", "said"),
    [
        (sea, Levels(4), "runs on the host, where episodes begin as it says or with --starts groups"),
        (Forgetful, ToldStarts(), "Forgetful cannot be put back to where it was"),
    ],
)
def test_what_cannot_be_is_said_early(environment, starts, said):
    with pytest.raises(ForageError, match=said):
        resolve("ppo", environment, steps=100, seeds=1, starts=starts).runner()
