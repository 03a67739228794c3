"""DeepMind Control and OGBench on the host: a suite of one small task, and the libraries where they are installed."""

import importlib.util
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments import make
from forage.environments.adapters.gymnasium import dm_control, ogbench


def needs(library):
    return pytest.mark.skipif(importlib.util.find_spec(library) is None, reason=f"{library} is not installed")


class Counting:
    """A task in the form of `dm_control.rl.control.Environment`: the action is added, and 3 ends the episode."""

    _step_limit = 3.9999999  # as the library computes 4

    def __init__(self, **options):
        self.options, self.task = options, SimpleNamespace(_random=None)

    def control_timestep(self):
        return 0.05

    def action_spec(self):
        return SimpleNamespace(shape=(1,), minimum=-2.0, maximum=2.0)

    def observation_spec(self):
        return {"sum": np.zeros(()), "draw": np.zeros(2)}

    def reset(self):
        self.sum, self.time = 0.0, 0
        self.draw = self.task._random.uniform(size=2)
        return self.look(None)

    def step(self, action):
        self.sum, self.time = self.sum + action[0], self.time + 1
        return self.look(0.0 if self.sum >= 3 else 1.0 if self.time >= self._step_limit else None)

    def look(self, discount):
        seen = {"sum": np.float64(self.sum), "draw": self.draw}
        return SimpleNamespace(observation=seen, reward=0.5, discount=discount, last=lambda: discount is not None)


@pytest.fixture
def suite(monkeypatch):
    load = lambda domain, task, task_kwargs: Counting(**task_kwargs)  # noqa: E731
    made = SimpleNamespace(load=load, ALL_TASKS=[("count", "up"), ("count", "down")])
    monkeypatch.setattr(dm_control, "load_suite", lambda: made)


@pytest.mark.parametrize(("action", "ends"), [(0.5, [(4, False)]), (1.0, [(3, True)])])
def test_a_limit_truncates_and_a_discount_of_0_terminates(suite, action, ends):
    batch = dm_control.DMControlEnvironment("count-up", 1)
    spec = batch.spec
    assert spec.horizon == 4 and {name: one.shape for name, one in spec.observation_space.items()} == {
        "sum": (1,),
        "draw": (2,),
    }
    first = batch.reset(7)
    np.testing.assert_array_equal(
        first["draw"][0], np.random.RandomState(batch.seeds(7)[0]).uniform(size=2).astype(np.float32)
    )
    found = []
    for time in range(1, ends[0][0] + 1):
        step = batch.step(np.array([[action]], np.float32)).step
        assert step.reward.tolist() == [0.5] and step.observation["sum"][0, 0] == pytest.approx(action * time)
        if step.terminated[0] or step.truncated[0]:
            assert step.terminated[0] != step.truncated[0]
            found.append((time, bool(step.terminated[0])))
    assert found == ends


def test_ids_and_options_are_named(suite):
    assert set(dm_control.ids()) == {"count-up", "count-down"}
    assert dm_control.DMControlEnvironment.options_of("count-up") == {"time_limit", "pixels", "size", "camera"}


@pytest.mark.parametrize(
    ("load", "library", "extra"),
    [(dm_control.load_suite, "dm_control", "dm-control"), (ogbench.load_ogbench, "ogbench", "ogbench")],
)
def test_a_missing_library_is_named(load, library, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    getattr(load, "cache_clear", lambda: None)()
    with pytest.raises(ForageError, match=rf"pip install 'forage-rl\[{extra}\]'"):
        load()


def test_another_mujoco_is_named(suite, monkeypatch):
    def refuse(*words, **options):
        raise AttributeError("flex_vertedge")

    monkeypatch.setattr(dm_control, "ControlTask", refuse)
    with pytest.raises(ForageError, match=r"count-up of DeepMind Control does not work with MuJoCo .*dm-control"):
        dm_control.make_task("count-up")


@needs("dm_control")
def test_the_nearest_task_is_named():
    with pytest.raises(ForageError, match=r"Did you mean .*dm_control:walker-walk"):
        make("dm_control:walker-wlak")


@needs("dm_control")
def test_steps_are_those_of_the_library():
    from dm_control import suite

    batch = make("dm_control:walker-walk").build(1)
    theirs = suite.load("walker", "walk", {"random": np.random.RandomState(batch.seeds(3)[0])})
    random = np.random.default_rng(0)
    found, expected = batch.reset(3), theirs.reset()
    for _ in range(20):
        for name, value in expected.observation.items():
            np.testing.assert_array_equal(found[name][0], np.float32(value).reshape(-1))
        action = random.uniform(-1, 1, 6).astype(np.float32)
        step, expected = batch.step(action[None]).step, theirs.step(action)
        found = step.observation
        assert step.reward[0] == np.float32(expected.reward)


@needs("ogbench")
@pytest.mark.parametrize("id", ["pointmaze-medium-v0", "pointmaze-medium-singletask-v0"])
def test_one_seed_is_one_episode(id):
    first, second = (make(f"ogbench:{id}").build(2).reset(3) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, first, second)
    if "singletask" not in id:
        assert set(first) == {"observation", "desired_goal"}
        assert not np.array_equal(first["observation"], first["desired_goal"])
