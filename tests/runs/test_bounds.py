"""Observations outside the declared box: a run warns once, on the host and on the device."""

from types import SimpleNamespace

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium.spaces import Box, Dict, Discrete
from tiers import first

import forage
from forage.core.bounds import bounded_leaves
from forage.core.ports import Environment
from forage.core.types import Step
from forage.runs.faults import Bounds

small.keep_compiled()
TINY = {"agent_options": small.PPO, "seeds": 1, "evaluation_episodes": 1, "display": "plain"}


class Line(gymnasium.Env):
    """Five steps to a place."""

    observation_space = Dict({"place": Box(-1, np.float32([1, np.inf]), (2,), np.float32)})
    action_space = Discrete(2)

    def __init__(self, far: float = 0.2):
        self.far = far

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.see(), {}

    def step(self, action):
        self.time += 1
        return self.see(), float(action), False, self.time >= 5, {}

    def see(self):
        return {"place": np.float32([self.far * self.time, 9])}


class Native(Environment):
    """Five steps, each to a place of its own."""

    far: float = 0.2

    observation_space = property(lambda self: Box(-1, 1, (1,), np.float32))
    action_space = property(lambda self: Discrete(2))

    def reset(self, key):
        return jnp.zeros((), jnp.int32), jnp.zeros(1)

    def step(self, state, action, key):
        state = state + 1
        seen = jnp.full(1, self.far * state, jnp.float32)
        return state, Step(seen, action.astype(jnp.float32), jnp.zeros((), bool), state >= 5, {})


@pytest.mark.parametrize("cls", first(1, [Line, Native]), ids=["host", "device"])
def test_a_run_says_once_that_observations_are_outside_their_bounds(cls, capfd, tmp_path):
    forage.train("ppo", cls, environment_options={"far": 0.5}, steps=64, directory=tmp_path / "far", **TINY)
    said = capfd.readouterr().out
    assert said.count("shows observations outside the bounds that it declares") == 1
    assert ("place entry 0 was 2.5, 1.5 above its bound 1" if cls is Line else "entry 0 was 1.5, 0.5 above") in said


def test_what_is_within_its_bounds_is_not_spoken_of():
    said = []
    runner = SimpleNamespace(current_observations={"place": np.float32([[[0.5, 99.0], [-1.0000001, -1.0]]])})
    runner.learner = SimpleNamespace(memory=SimpleNamespace(read_files={}))
    setup = SimpleNamespace(name="Line", spec=SimpleNamespace(observation_space=Line.observation_space))
    bounds = Bounds(setup, runner, SimpleNamespace(note=said.append))  # type: ignore[arg-type]
    bounds.look()
    assert said == []
    runner.current_observations = {"place": np.float32([[[0.5, 99.0], [-1.5, -1.0]]])}
    bounds.look()
    bounds.look()
    assert len(said) == 1 and "place entry 0 was -1.5, 0.5 below its bound -1" in said[0]


def test_only_boxes_that_promise_more_than_their_dtype_are_looked_at():
    space = Dict(
        {
            "picture": Box(0, 255, (4, 4, 3), np.uint8),
            "free": Box(-np.inf, np.inf, (2,), np.float32),
            "number": Discrete(3),
            "level": Box(0, 5, (1,), np.int32),
            "place": Box(np.float32([-np.inf, 0]), np.inf, dtype=np.float32),
        }
    )
    assert set(bounded_leaves(space)) == {("level",), ("place",)}
