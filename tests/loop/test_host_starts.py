"""Starts on the host: a state that was kept is gone back to, by the same parts as on the device."""

import jax
import numpy as np
import pytest

import forage
from forage.config.resolve import resolve
from forage.core.host import HostEnvironment
from forage.core.types import Clock, Experience, ForageError
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment
from forage.environments.adapters.on_host import OnHost
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea import DeepSea
from forage.loop.host.starts import FRESH, HostedEnvironment, HostStarts, unpack_state
from forage.starts.archive import Archive
from forage.starts.cells import NONE
from forage.starts.go_explore import GoExplore
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


@pytest.mark.thorough
def test_after_a_failure_new_episodes_have_nothing_behind_them():
    """Every kept state was reached in as many steps as its depth, although the first episodes were lost."""
    starts = GoExplore(capacity=64, probability=0.5, burst=3)
    setup = resolve("ppo", sea, steps=1000, seeds=[0], agent_options=PPO | {"rollout_length": 4}, starts=starts)
    runner = setup.runner()
    runner.begin()
    runner.advance(1)
    runner.failed = True
    again = setup.runner()
    again.restore(runner.state, runner.steps)
    again.advance(4)
    found = again.loops[0].starts
    archive = found.state.part.archive
    kept = np.flatnonzero(archive.cell != NONE)
    places = [found.environment.put(0, unpack_state(found.saved[int(archive.env_state.number[slot])])) for slot in kept]
    assert len(kept) > 5
    assert [int(place.any(1).argmax()) for place in places] == archive.path.steps[kept].tolist()


def test_no_picture_is_kept_twice():
    """The simulator's own state contains the observation: on the host parts keep tickets alone."""
    spec = sea(1).spec
    for part in (Archive(capacity=8), GoExplore(capacity=8)):
        leaves = jax.tree.leaves(part.init(jax.random.key(0), HostedEnvironment(spec), spec, 1))
        assert not any(leaf.shape[:1] == (8,) and leaf.ndim > 1 for leaf in leaves)


@pytest.mark.thorough
def test_go_explore_reaches_the_end_of_a_deep_sea_on_the_host(tmp_path):
    """Chance alone finds it once in 2^8 episodes; the run has 250 of 8 steps, and begins them at the frontier."""
    starts = GoExplore(capacity=64, burst=4)
    run = forage.train(
        "ppo",
        lambda num_envs: OnHost(DeepSea(8), num_envs, "Sea"),
        steps=2_000,
        seeds=[0, 1],
        agent_options=PPO,
        starts=starts,
        visits=True,
        directory=tmp_path / "run",
        display="quiet",
        evaluation_episodes=2,
    )
    last = run.rows[-1]
    assert all(step is not None for step in last["first_reward"])
    assert run.visits.shape == (2, 8, 8) and (run.visits.sum((1, 2)) == last["steps"]).all()
    assert last["places_visited"] == (run.visits > 0).sum((1, 2)).tolist()
    assert (tmp_path / "run" / "visits.png").stat().st_size > 1000


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
        (sea, Levels(4), "runs on the host, where episodes begin as it says or where they have been"),
        (Forgetful, Archive(4), "Forgetful cannot be put back to where it was"),
        ("gymnasium:CartPole-v1", GoExplore(cells="position"), "has no map to make cells of"),
        ("gymnasium:CartPole-v1", GoExplore(cells="image"), "shows no image"),
    ],
)
def test_what_cannot_be_is_said_early(environment, starts, said):
    with pytest.raises(ForageError, match=said):
        resolve("ppo", environment, steps=100, seeds=1, starts=starts).runner()
