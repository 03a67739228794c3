"""Peculiarities of MO-Gymnasium and Gymnasium-Robotics. Conformance with the libraries: `test_conformance.py`."""

import importlib.util
import sys

import jax
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments import make
from forage.environments.adapters.gymnasium import mo_gymnasium, robotics

needs_mo = pytest.mark.skipif(importlib.util.find_spec("mo_gymnasium") is None, reason="mo-gymnasium is not installed")
needs_robotics = pytest.mark.skipif(
    importlib.util.find_spec("gymnasium_robotics") is None, reason="gymnasium-robotics is not installed"
)


@pytest.fixture(autouse=True)
def other_folder(tmp_path, monkeypatch):
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
        spec = make(f"robotics:{id}", **options).spec()
    except ForageError as error:
        if "mujoco<3.12" not in str(error):
            raise
        pytest.skip(str(error))
    assert {key: space.shape[0] for key, space in spec.observation_space.items()} == sizes
    assert spec.horizon == horizon


@needs_robotics
def test_current_mujoco_is_named_where_the_library_cannot_run_with_it(monkeypatch):
    import mujoco

    def refuse(target, **options):
        raise AssertionError

    monkeypatch.setattr(robotics, "make_single", refuse)
    monkeypatch.setattr(mujoco, "__version__", "3.13.0")
    with pytest.raises(ForageError, match=r"FetchReach-v4 .* MuJoCo 3\.13\.0; pip install 'mujoco<3\.12'"):
        make("robotics:FetchReach-v4").build(1)
