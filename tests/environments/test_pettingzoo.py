"""The adapter to PettingZoo: agents that come and leave, turns. Conformance with PettingZoo: `test_conformance.py`."""

import re

import numpy as np
import pytest
from gymnasium import spaces as gym_spaces

import forage
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
    """Tic-tac-toe: the first player fills the first row."""
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


TWO = '''
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import AgentSelector

class Spaces:
    metadata = {"render_modes": ["rgb_array"], "name": "two"}
    possible_agents = ["a", "b", "late"]
    def __init__(self, render_mode=None, fault=""):
        self.fault = fault
    def observation_space(self, agent):
        return spaces.Box(-9, 9, (1,), np.float32)
    def action_space(self, agent):
        return spaces.Discrete(2)

class Both(Spaces, ParallelEnv):
    """Two of three agents, for three steps; each earns 1 a step."""
    def reset(self, seed=None, options=None):
        self.time, self.agents = 0, ["a", "b"]
        self.held = {name: np.zeros(1, np.float32) for name in self.agents}
        return self.held, {}
    def step(self, actions):
        assert actions, "stepped after its end"
        self.time += 1
        end = self.time == 3
        for held in self.held.values():
            held[:] = self.time  # the same arrays again
        rewards = dict.fromkeys(self.agents, 1.0)
        over = dict.fromkeys(self.agents, end and self.fault != "silent")
        if self.fault == "paid" and self.time == 2:
            rewards["late"] = 5.0
        if self.fault == "missing":
            rewards.pop("b", None)
        if end and self.fault != "stays":
            self.agents = []
        if end and self.fault == "stays":
            over = dict.fromkeys(self.agents, True)
        return self.held, rewards, over, dict.fromkeys(over, False), {}

class Turns(Spaces, AECEnv):
    """Two agents in turns; who moves second in a round is done with, and each is paid 1 at the end of each of two."""
    possible_agents = ["a", "b"]
    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {name: {} for name in self.agents}
        self.order = AgentSelector(self.agents)
        self.agent_selection, self.time = self.order.reset(), 0
    def observe(self, agent):
        self.infos[agent]  # which there is as long as it is in agents
        return np.full(1, self.time, np.float32)
    def step(self, action):
        if self.fault == "stays" and action is None:
            return
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            return self._was_dead_step(action)
        self.time += 1
        self._cumulative_rewards[self.agent_selection] = 0
        if self.fault != "unclear":
            self._clear_rewards()
        if self.time in (2, 4):
            self.rewards = dict.fromkeys(self.agents, 1.0)
        if self.time == 4:
            self.truncations = dict.fromkeys(self.agents, True)
        if self.fault == "empty" and self.time == 4:
            self.agents, self.truncations = [], dict.fromkeys(self.agents, False)
        self.agent_selection = self.order.next()
        if self.fault != "unclear" or self.time in (2, 4):
            self._accumulate_rewards()
'''


@pytest.fixture
def two(tmp_path, monkeypatch):
    def build_case(kind, fault=""):
        made = "parallel_env" if kind == "Both" else "env"
        (tmp_path / "two_pack").mkdir(exist_ok=True)
        source = f"{TWO}\ndef {made}(**options):\n    return {kind}(**options)\n"
        (tmp_path / "two_pack" / f"two_{kind}.py").write_text(source)
        monkeypatch.syspath_prepend(str(tmp_path))
        return make(f"pettingzoo:two_pack.two_{kind}", fault=fault)

    return build_case


@pytest.mark.parametrize("fault", ["", "silent", "stays"])
def test_nobody_left_is_the_end_and_the_first_episode_pays_once(two, fault):
    environment = two("Both", fault).build(1)
    kept = [environment.reset(0)["observation"]]
    paid, ends = [], []
    for _ in range(6):
        result = environment.step(np.zeros((1, 3), int))
        kept += [result.step.observation["observation"], result.observation["observation"]]
        paid.append(result.step.reward[0].tolist())
        ends.append(bool((result.step.terminated | result.step.truncated).all()))
    assert ends == [False, False, True] * 2 and paid == [[1, 1, 0]] * 6
    assert [seen[0, 0, 0] for seen in kept] == [0, 1, 1, 2, 2, 3, 0, 1, 1, 2, 2, 3, 0]


@pytest.mark.parametrize("fault", ["", "empty"])
def test_who_has_left_in_turns_is_not_asked_and_nobody_is_paid_twice(two, fault):
    environment = two("Turns", fault).build(1)
    environment.reset(0)
    steps = [environment.step(np.zeros((1, 2), int)).step for _ in range(4)]
    assert [step.reward[0].tolist() for step in steps] == [[0, 0], [1, 1], [0, 0], [1, 1]]
    last = steps[-1]
    assert (last.terminated | last.truncated).all() and last.truncated.all() == (fault == "")
    if not fault:
        assert last.observation["observation"][0, :, 0].tolist() == [4, 4]  # what values of cut episodes go on from


@pytest.mark.parametrize(
    ("kind", "fault", "said"),
    [
        ("Both", "silent", "agent a was neither terminated nor truncated, and nobody is left; say so in the step"),
        ("Both", "stays", "is done and stays in agents; take it out in that step"),
        ("Both", "missing", "leave out agent b, which acted"),
        ("Both", "paid", "agent late was paid 5.0 and is not there"),
        ("Turns", "stays", "keeps agent a after it is done at step 4"),
        ("Turns", "unclear", "pays agent a 1 in rewards and 0 in what last() returns at step 3"),
        ("Turns", "empty", "was neither terminated nor truncated, and nobody is left"),
        ("Both", "", ""),
        ("Turns", "", ""),
    ],
)
def test_the_check_says_which_promise_is_broken(two, kind, fault, said):
    checked = forage.check(two(kind, fault), steps=20)
    wrong = [one.text for one in checked.wrong]
    assert any(said in words for words in wrong) if said else not wrong, checked


def test_the_check_obeys_masks():
    pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    said = {one.topic: one.text for one in forage.check("pettingzoo:classic/tictactoe_v3", steps=200).findings}
    assert re.search(r"terminated; [5-9] to 9 steps", said["episodes"]), said["episodes"]
