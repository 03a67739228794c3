"""MO-Gymnasium and Gymnasium-Robotics on the host road, against the libraries themselves."""

import importlib.util
import sys

import gymnasium
import jax
import numpy as np
import pytest

from forage.environments import canonical_id, make
from forage.environments.adapters import mo_gymnasium, robotics
from forage.environments.adapters.gymnasium import seeds
from forage.types import ForageError

needs_mo = pytest.mark.skipif(importlib.util.find_spec("mo_gymnasium") is None, reason="mo-gymnasium is not installed")
needs_robotics = pytest.mark.skipif(
    importlib.util.find_spec("gymnasium_robotics") is None, reason="gymnasium-robotics is not installed"
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """MuJoCo writes its log into the current directory."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("module", [mo_gymnasium.load_mo_gymnasium, robotics.load_robotics])
def test_what_is_missing_is_named(module, monkeypatch):
    for name in ("mo_gymnasium", "gymnasium_robotics"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ForageError, match=r"pip install 'forage-rl\[(mo-gymnasium|robotics)\]'"):
        module()


@needs_mo
@pytest.mark.parametrize(
    ("id", "options", "names", "horizon"),
    [
        ("deep-sea-treasure-v0", {}, ("treasure", "time"), 100),
        ("mo-mountaincar-v0", {}, ("time", "reverse", "forward"), 200),
        ("mo-mountaincar-v0", {"merge_move_penalty": True}, ("time", "move"), 200),
        ("mo-mountaincar-timespeed-v0", {}, ("time", "speed"), 200),
        ("breakable-bottles-v0", {}, ("time", "bottles", "potential"), 100),
        ("fruit-tree-v0", {"max_episode_steps": 9}, ("protein", "carbs", "fats", "vitamins", "minerals", "water"), 9),
        ("water-reservoir-v0", {"nO": 4}, mo_gymnasium.OBJECTIVES["dam_env"], None),
        ("minecart-v0", {}, ("first_ore", "second_ore", "fuel"), 1000),
    ],
)
def test_rewards_have_the_names_that_the_library_documents(id, options, names, horizon):
    spec = make(f"mo-gymnasium:{id}", **options).spec()
    assert (spec.reward_names, spec.horizon) == (names, horizon)


@needs_mo
def test_steps_are_mo_gymnasiums_own():
    host = make("mo-gymnasium:deep-sea-treasure-v0").build(2)
    env = mo_gymnasium.load_mo_gymnasium().make("deep-sea-treasure-v0")
    np.testing.assert_array_equal(host.reset(0)[0], env.reset(seed=seeds(0, 2)[0])[0])
    for action in (3, 2, 1):  # right, left, down: to the first treasure
        step, _ = host.step(np.full(2, action))
        observation, reward, terminated, _, _ = env.step(action)
        np.testing.assert_array_equal(step.observation[0], observation)
        np.testing.assert_array_equal(step.reward[1], reward)
        assert step.reward.dtype == np.float32 and step.terminated[0] == terminated
    assert terminated and step.reward[0, 0] > 0 and step.reward[0, 1] == -1  # treasure, then time


@needs_mo
def test_vector_rewards_come_from_other_processes_and_from_a_snapshot():
    id = "mo-gymnasium:breakable-bottles-v0"
    serial, parallel = (make(id, parallel=flag).build(2) for flag in (False, True))
    try:
        jax.tree.map(np.testing.assert_array_equal, serial.reset(1), parallel.reset(1))
        for action in (0, 1, 2, 2):
            one, other = serial.step(np.full(2, action)), parallel.step(np.full(2, action))
            jax.tree.map(np.testing.assert_array_equal, one, other)
            assert one.step.reward.shape == (2, 3)
    finally:
        parallel.close()
    saved = serial.snapshot()
    assert saved is not None
    after = serial.step(np.zeros(2, int))
    serial.restore(saved)
    jax.tree.map(np.testing.assert_array_equal, serial.step(np.zeros(2, int)), after)


@needs_robotics
@pytest.mark.parametrize(
    ("id", "options", "sizes", "horizon"),
    [
        ("PointMaze_UMaze-v3", {"max_episode_steps": 7}, {"observation": 4, "achieved_goal": 2, "desired_goal": 2}, 7),
        ("FetchReach-v4", {"reward_type": "dense"}, {"observation": 10, "achieved_goal": 3, "desired_goal": 3}, 50),
    ],
)
def test_goals_are_kept_in_the_observation(id, options, sizes, horizon):
    try:
        host = make(f"robotics:{id}", **options).build(2)
    except ForageError as error:
        if "mujoco<3.12" not in str(error):
            raise
        pytest.skip(str(error))
    assert {key: space.shape[0] for key, space in host.observation_space.items()} == sizes
    assert host.horizon == horizon
    env = gymnasium.make(id, **options)
    observation = host.reset(2)
    raw = env.reset(seed=seeds(2, 2)[1])[0]
    actions = np.random.default_rng(0).uniform(-1, 1, (5, 2, *host.action_space.shape)).astype(np.float32)
    for action in actions:
        jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[1], y.astype(np.float32)), observation, raw)
        (step, observation), (raw, reward, *_) = host.step(action), env.step(action[1])
        assert step.reward[1] == np.float32(reward)
    saved = host.snapshot()
    assert saved is not None
    after = [host.step(action) for action in actions]  # the maze's time runs out on the way
    again = make(f"robotics:{id}", **options).build(2)
    again.reset(9)
    again.restore(saved)
    for action, expected in zip(actions, after, strict=True):
        jax.tree.map(np.testing.assert_array_equal, again.step(action), expected)


@needs_robotics
def test_current_mujoco_is_named_where_the_library_cannot_run_with_it(monkeypatch):
    import mujoco

    def refuse(target, **options):
        raise AssertionError

    monkeypatch.setattr(robotics, "make_single", refuse)
    monkeypatch.setattr(mujoco, "__version__", "3.13.0")
    with pytest.raises(ForageError, match=r"FetchReach-v4 .* MuJoCo 3\.13\.0; pip install 'mujoco<3\.12'"):
        make("robotics:FetchReach-v4").build(1)


@pytest.mark.parametrize(
    ("id", "nearest"),
    [
        pytest.param("mo-gymnasium:deep-sea-tresure-v0", "mo-gymnasium:deep-sea-treasure-v0", marks=needs_mo),
        pytest.param("robotics:FetchReech-v4", "robotics:FetchReach-v4", marks=needs_robotics),
    ],
)
def test_an_id_close_to_a_real_one(id, nearest):
    assert canonical_id(nearest.upper()) == nearest
    with pytest.raises(ForageError, match=nearest):
        make(id)
    with pytest.raises(ForageError, match="reward_type" if "Fetch" in nearest else "float_state"):
        make(nearest, **({"reward_tipe": "dense"} if "Fetch" in nearest else {"float_stat": True})).build(1)
