"""The adapter to PettingZoo: at once and in turns, beside PettingZoo driven directly."""

import importlib

import numpy as np
import pytest
from gymnasium import spaces as gym_spaces

from forage.environments import make
from forage.environments.adapters.gymnasium import seeds
from forage.types import ForageError

pettingzoo = pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")

WORLD = '''
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

class Lights(ParallelEnv):
    """Agent a leaves after 2 steps, b after 4 by the clock; c comes at step 1 and stays to the end at 5."""
    metadata = {"render_modes": ["rgb_array"], "name": "lights"}
    possible_agents = ["a", "b", "c"]
    def __init__(self, render_mode=None, bonus=0.0):
        self.bonus = bonus
    def observation_space(self, agent):
        return spaces.Box(-9, 9, (3 if agent == "c" else 2,), np.float64)
    def action_space(self, agent):
        return spaces.Discrete(3 if agent == "a" else 2)
    def see(self):
        return {name: np.full(3 if name == "c" else 2, self.time + 0.5) for name in self.agents}
    def reset(self, seed=None, options=None):
        self.time, self.agents = 0, ["a", "b"]
        return self.see(), {}
    def step(self, actions):
        assert set(actions) == set(self.agents), (actions, self.agents)
        self.time += 1
        reward = {name: float(actions[name]) + self.bonus for name in self.agents}
        over = {name: (name, self.time) in (("a", 2), ("c", 5)) for name in self.agents}
        clock = {name: (name, self.time) == ("b", 4) for name in self.agents}
        seen = self.see()
        self.agents = [name for name in self.agents if not (over[name] or clock[name])]
        if self.time == 1:
            self.agents.append("c")
            seen = self.see()
            reward["c"], over["c"], clock["c"] = 0.0, False, False
        return seen, reward, over, clock, {}

def parallel_env(**options):
    return Lights(**options)
'''


@pytest.fixture
def lights(tmp_path, monkeypatch):
    (tmp_path / "lights_pack").mkdir()
    (tmp_path / "lights_pack" / "lights.py").write_text(WORLD)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "pettingzoo:lights_pack.lights"


def test_agents_come_and_leave(lights):
    environment = make(lights, bonus=0.25).build(2)
    assert environment.num_agents == 3 and environment.action_space == gym_spaces.Discrete(3)
    observation = environment.reset(0)
    np.testing.assert_array_equal(observation["present"][0], [1, 1, 0])
    np.testing.assert_array_equal(observation["action_mask"][0], [[1, 1, 1], [1, 1, 0], [1, 1, 0]])
    assert observation["observation"].shape == (2, 3, 3 + 3) and observation["state"].shape == (2, 3, 9 + 3)
    ends, rewards, present = [], [], []
    for _ in range(5):
        result = environment.step(np.array([[2, 2, 1], [0, 0, 0]]))  # 2 is more than b has: its last, 1
        ends.append((result.step.terminated[0].tolist(), result.step.truncated[0].tolist()))
        rewards.append(result.step.reward[0].tolist())
        present.append(result.step.observation["present"][0].tolist())
    assert present == [[1, 1, 1], [-1, 1, 1], [-1, 1, 1], [-1, -1, 1], [-1, -1, -1]]
    assert [over for over, _ in ends] == [
        [False, False, False],
        [True, False, False],
        [True, False, False],
        [True, False, False],
        [True, True, True],
    ]
    assert [clock[1] for _, clock in ends] == [False, False, False, True, False]
    assert rewards == [[2.25, 1.25, 0], [2.25, 1.25, 1.25], [0, 1.25, 1.25], [0, 1.25, 1.25], [0, 0, 1.25]]
    np.testing.assert_array_equal(result.observation["present"][0], [1, 1, 0])  # a new episode
    np.testing.assert_array_equal(result.observation["observation"][0, 0, :2], 0.5)
    assert result.step.observation["observation"][0, 2, 0] == 5.5  # what the last step led to


def test_in_turns_only_one_acts_and_both_hear_the_end():
    """Tic-tac-toe in which the first player fills the first row."""
    pytest.importorskip("pygame")
    environment = make("pettingzoo:classic/tictactoe_v3").build(1)
    observation = environment.reset(0)
    assert environment.num_agents == 2 and observation["observation"].shape == (1, 2, 3, 3, 2)
    np.testing.assert_array_equal(observation["present"], [[1, 0]])
    moves = [0, 1, 3, 4, 6]  # cells go down the columns
    for number, move in enumerate(moves):
        assert observation["action_mask"][0, number % 2, move] == 1
        ignored = 8
        action = np.array([[move, ignored]] if number % 2 == 0 else [[ignored, move]])
        result = environment.step(action)
        observation = result.observation
        if number < len(moves) - 1:
            np.testing.assert_array_equal(observation["present"], [[number % 2, 1 - number % 2]])
            assert observation["action_mask"][0, (number + 1) % 2, move] == 0
            assert not result.step.reward.any()
    np.testing.assert_array_equal(result.step.reward, [[1, -1]])
    np.testing.assert_array_equal(result.step.terminated, [[True, True]])
    assert observation["action_mask"].all() and observation["present"].tolist() == [[1, 0]]


def test_it_says_what_the_library_says():
    pytest.importorskip("mpe2")
    environment = make("pettingzoo:mpe/simple_spread_v3").build(2)
    directs = [importlib.import_module("mpe2.simple_spread_v3").parallel_env() for _ in range(2)]
    observation = environment.reset(5)
    begun = [direct.reset(seed=seed)[0] for direct, seed in zip(directs, seeds(5, 2), strict=True)]
    random = np.random.default_rng(0)
    for _ in range(25):
        for index in range(2):
            for i, agent in enumerate(environment.agents):
                np.testing.assert_allclose(observation["observation"][index, i], begun[index][agent], rtol=1e-6)
        action = random.integers(0, 5, (2, 3))
        result = environment.step(action)
        observation = result.step.observation
        for index, direct in enumerate(directs):
            chosen = dict(zip(environment.agents, action[index], strict=True))
            begun[index], reward, over, clock, _ = direct.step(chosen)
            for i, agent in enumerate(environment.agents):
                np.testing.assert_allclose(result.step.reward[index, i], reward[agent], rtol=1e-5)
                assert result.step.terminated[index, i] == over[agent]
                assert result.step.truncated[index, i] == clock[agent]
    assert result.step.truncated.all()
    np.testing.assert_array_equal(environment.render().shape[2:], [3])
    environment.close()


def test_bad_input(lights):
    pytest.importorskip("pygame")
    with pytest.raises(ForageError, match="tictactoe_v3"):
        make("pettingzoo:classic/tictactoo_v3")
    with pytest.raises(ForageError, match="bonuz"):
        make(lights, bonuz=1).build(1)
    with pytest.raises(ForageError, match="no_such_pack"):
        make("pettingzoo:no_such_pack.world").build(1)
