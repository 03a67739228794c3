"""Additions of the adapters to JAX libraries: parameters as fields, numbered combinations, flat observations."""

import importlib.util

import gymnasium
import jax
import numpy as np
import pytest
import small

from forage.core import prng, spaces
from forage.core.fields import numeric_fields, value_of
from forage.core.types import ForageError
from forage.environments import make
from forage.environments.adapters.jax import common as foreign
from forage.environments.catalogue import SUITES
from forage.environments.wrappers import with_fields
from forage.tasks.contexts import Contexts


def needs(library):
    return pytest.mark.skipif(importlib.util.find_spec(library) is None, reason=f"{library} is not installed")


@needs("gymnax")
def test_a_librarys_parameters_are_options_and_fields():
    environment = make("gymnax:CartPole-v1", length=0.7)
    assert value_of(environment, "length") == 0.7
    assert make("gymnax:CartPole-v1", max_steps_in_episode=30).horizon == 30
    assert value_of(with_fields(environment, length=0.9), "length") == 0.9
    assert make("gymnax:DeepSea-bsuite", size=5).observation_space.shape == (5, 5)
    for options, words in (
        ({"max_steps_in_episode": 1.5}, ["whole number", "500"]),
        ({"length": "long"}, ["length", "0.5"]),
        ({"lenght": 1.0}, ["length"]),
    ):
        with pytest.raises(ForageError) as caught:
            make("gymnax:CartPole-v1", **options)
        assert all(word in str(caught.value) for word in words)
    with pytest.raises(ForageError, match="Gymnax has no field lenght"):
        with_fields(environment, lenght=1.0)


@needs("gymnax")
def test_a_batch_of_parameters_is_a_batch_of_environments():
    environment = make("gymnax:CartPole-v1")
    state, _ = environment.reset(prng.key(0))

    def tilt(length):
        after = with_fields(environment, length=length)
        for _ in range(3):
            moved, step = after.step(state, jax.numpy.int32(1), prng.key(1))
        return step.observation, moved.theta_dot

    _, speeds = jax.vmap(tilt)(jax.numpy.array([0.25, 0.5, 1.0]))
    assert abs(speeds[0]) > abs(speeds[1]) > abs(speeds[2])  # a short pole turns faster


@needs("gymnax")
def test_tasks_draw_a_librarys_parameters():
    environment = make("gymnax:CartPole-v1")
    tasks = Contexts(("length=0.25:1.0", "max_steps_in_episode=100:200"))
    task = tasks.next(small.at_once(lambda: tasks.init(prng.key(0), environment)), environment, prng.key(1))
    assert 0.25 <= float(task.parameters.length) <= 1.0
    assert 100 <= int(task.parameters.max_steps_in_episode) <= 200
    assert task.parameters.gravity is None


@needs("jumanji")
def test_combinations_are_numbered_as_their_mask():
    environment, parts = make("jumanji:Tetris-v0"), make("jumanji:Tetris-v0", joint=False)
    assert environment.action_space == gymnasium.spaces.Discrete(40)
    assert parts.action_space == gymnasium.spaces.MultiDiscrete([4, 10])
    state, observation = environment.reset(prng.key(0))
    seen, mask = spaces.split_mask(observation)
    _, whole = parts.reset(prng.key(0))
    np.testing.assert_array_equal(mask, whole["action_mask"].reshape(-1))
    allowed = np.flatnonzero(np.asarray(mask))[-1]
    _, step = environment.step(state, jax.numpy.int32(allowed), prng.key(1))
    _, other = parts.step(state, jax.numpy.array(divmod(int(allowed), 10), np.int32), prng.key(1))
    np.testing.assert_array_equal(step.observation["observation"]["grid"], other.observation["grid"])
    assert sorted(seen) == ["grid", "step_count", "tetromino"]


@needs("jumanji")
def test_flat_observations_hold_every_number():
    environment, flat = make("jumanji:Knapsack-v1"), make("jumanji:Knapsack-v1", flatten=True)
    _, observation = environment.reset(prng.key(0))
    _, numbers = flat.reset(prng.key(0))
    parts = observation["observation"]
    assert flat.observation_space["observation"].shape == numbers["observation"].shape == (150,)
    wanted = np.concatenate([np.asarray(parts[name], np.float32) for name in sorted(parts)])
    np.testing.assert_array_equal(numbers["observation"], wanted)
    assert flat.observation_space["observation"].contains(np.asarray(numbers["observation"]))


@needs("xminigrid")
def test_a_batch_of_rulesets_is_a_batch_of_tasks():
    environment = make("xland:XLand-MiniGrid-R1-9x9")
    assert {"goal", "rules", "init_tiles"} <= set(numeric_fields(environment))
    goals = jax.numpy.stack([environment.goal, environment.goal.at[0].set(0)])

    def begin(goal):
        return with_fields(environment, goal=goal).reset(prng.key(0))[0].state.goal_encoding

    np.testing.assert_array_equal(jax.vmap(begin)(goals), goals)
    with pytest.raises(ForageError, match="medium-1m"):
        make("xland:XLand-MiniGrid-R1-9x9", benchmark="no-such")
    with pytest.raises(ForageError, match="XLand-MiniGrid"):
        make("xland:MiniGrid-Empty-5x5", benchmark="medium-1m")


@needs("navix")
def test_navix_shows_what_is_asked_for():
    assert make("navix:Navix-Empty-5x5-v0", observation="rgb").observation_space.shape == (40, 40, 3)
    with pytest.raises(ForageError, match="symbolic_first_person"):
        make("navix:Navix-Empty-5x5-v0", observation="symbols")


@needs("brax")
def test_a_physics_model_is_a_parameter():
    environment = make("brax:inverted_pendulum", episode_length=30, action_repeat=4)
    assert environment.horizon == 8
    assert value_of(environment, "gravity").shape == (3,)
    assert numeric_fields(environment) == ["episode_length"]
    with pytest.raises(ForageError, match="from 1 up"):
        make("brax:inverted_pendulum", episode_length=0)
    with pytest.raises(ForageError, match="backend"):
        make("brax:inverted_pendulum", bakend="spring")


@needs("mujoco_playground")
def test_robots_that_are_not_here_are_asked_for():
    from mujoco_playground._src import mjx_env

    if mjx_env.MENAGERIE_PATH.exists():
        pytest.skip("the robots are on this machine")
    with pytest.raises(ForageError, match="Menagerie"):
        make("playground:Go1JoystickFlatTerrain")


def test_boxes_keep_what_the_library_bounds():
    space = foreign.box(np.array([-np.finfo(np.float32).max, -2]), 5, (2,), np.float64)
    assert space.dtype == np.float32
    np.testing.assert_array_equal(space.low, [-np.inf, -2])
    assert foreign.box(0, 2**40, (), np.int64).high == 2**31 - 1
    assert foreign.box(0, 1, (3,), bool).dtype == bool
    nested = gymnasium.spaces.Dict({"b": foreign.box(0, 2, (2,), np.int32), "a": foreign.box(-1, 1, (), np.float32)})
    np.testing.assert_array_equal(foreign.flat_box(nested).low, [-1, 0, 0])
    np.testing.assert_array_equal(foreign.flatten_leaves({"b": np.array([1, 2]), "a": np.float32(0.5)}), [0.5, 1, 2])


@pytest.mark.parametrize("prefix", [prefix for prefix, suite in SUITES.items() if not suite.host])
def test_a_library_that_is_missing_is_named(prefix, monkeypatch):
    suite = SUITES[prefix]
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == suite.library else find(name))
    with pytest.raises(ForageError, match=rf"forage-rl\[{suite.extra}\]"):
        make(f"{prefix}:{suite.example}")
