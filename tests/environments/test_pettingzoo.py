"""The adapter to PettingZoo: who comes and leaves, turns. Beside PettingZoo driven directly: `test_conformance.py`."""

import numpy as np
import pytest
from gymnasium import spaces as gym_spaces

from forage.core.spaces import PRESENT, STATE
from forage.core.types import ForageError
from forage.environments import make

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
    np.testing.assert_array_equal(observation[PRESENT][0], [1, 1, 0])
    np.testing.assert_array_equal(observation["action_mask"][0], [[1, 1, 1], [1, 1, 0], [1, 1, 0]])
    assert observation["observation"].shape == (2, 3, 3 + 3) and observation[STATE].shape == (2, 3, 9 + 3)
    ends, rewards, present = [], [], []
    for _ in range(5):
        result = environment.step(np.array([[2, 2, 1], [0, 0, 0]]))  # 2 is more than b has: its last, 1
        ends.append((result.step.terminated[0].tolist(), result.step.truncated[0].tolist()))
        rewards.append(result.step.reward[0].tolist())
        present.append(result.step.observation[PRESENT][0].tolist())
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
    np.testing.assert_array_equal(result.observation[PRESENT][0], [1, 1, 0])  # a new episode
    np.testing.assert_array_equal(result.observation["observation"][0, 0, :2], 0.5)
    assert result.step.observation["observation"][0, 2, 0] == 5.5  # what the last step led to


def test_in_turns_only_one_acts_and_both_hear_the_end():
    """Tic-tac-toe in which the first player fills the first row."""
    pytest.importorskip("pygame")
    environment = make("pettingzoo:classic/tictactoe_v3").build(1)
    observation = environment.reset(0)
    assert environment.num_agents == 2 and observation["observation"].shape == (1, 2, 3, 3, 2)
    np.testing.assert_array_equal(observation[PRESENT], [[1, 0]])
    moves = [0, 1, 3, 4, 6]  # cells go down the columns
    for number, move in enumerate(moves):
        assert observation["action_mask"][0, number % 2, move] == 1
        ignored = 8
        action = np.array([[move, ignored]] if number % 2 == 0 else [[ignored, move]])
        result = environment.step(action)
        observation = result.observation
        if number < len(moves) - 1:
            np.testing.assert_array_equal(observation[PRESENT], [[number % 2, 1 - number % 2]])
            assert observation["action_mask"][0, (number + 1) % 2, move] == 0
            assert not result.step.reward.any()
    np.testing.assert_array_equal(result.step.reward, [[1, -1]])
    np.testing.assert_array_equal(result.step.terminated, [[True, True]])
    assert observation["action_mask"].all() and observation[PRESENT].tolist() == [[1, 0]]


def test_bad_input(lights):
    with pytest.raises(ForageError, match="bonuz"):
        make(lights, bonuz=1).build(1)
    with pytest.raises(ForageError, match="no_such_pack"):
        make("pettingzoo:no_such_pack.world").build(1)
