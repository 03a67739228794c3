"""Times of a run's parts: measured by name, summed over seeds, reported as shares, and right for slow environments."""

import json
import time

import gymnasium
import numpy as np
import pytest
import small
from tiers import gate_cases

import forage
from forage.loop import runner
from forage.studies.report.page import report

small.keep_compiled()


class Slow(gymnasium.Env):
    """Waits in every step."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        time.sleep(0.01)
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_laps_by_hand(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(runner.time, "perf_counter", lambda: now[0])
    one = runner.Watch()
    for at, name in ((2.0, "act"), (5.0, "step"), (6.0, "act")):
        now[0] = at
        one.lap(name)
    now[0] = 10.0
    one.start()
    now[0] = 11.0
    one.lap("learn")
    assert one.spent == {"act": 3.0, "step": 3.0, "learn": 1.0}
    both = runner.sum_counts([one.spent, {"act": 1.0, "save": 2.0}])
    assert both == {"learn": 1.0, "act": 4.0, "step": 3.0, "save": 2.0}
    assert runner.time_shares(both) == "act 40%, step 30%, save 20%, learn 10%" and runner.time_shares({}) == ""
    assert runner.time_shares({"act": 1.0, "save": 0.001}) == "act 100%"


@pytest.mark.parametrize("agent", gate_cases(["ppo", "dqn"], ["ppo"]))
def test_a_run_says_where_its_time_went(agent, tmp_path):
    options = {"ppo": small.PPO, "dqn": small.REPLAY | {"hidden_sizes": (8,)}}[agent]
    began = time.perf_counter()
    run = forage.train(
        agent, Slow, steps=96, seeds=2, agent_options=options, wrap=["time-limit:8"], directory=tmp_path / "run",
        evaluation_episodes=1, evaluation_every=48, display="quiet",
    )  # fmt: skip
    took = time.perf_counter() - began
    spent = json.loads((run.directory / "time.json").read_text())
    assert set(spent) <= set(runner.ACTIVITIES) and sum(spent.values()) < took
    # Two seeds of two environments; the first report, which compiles, is counted apart, and may hold half of the steps.
    assert spent["step"] > 0.01 * 2 * 2 * (96 // 2) / 2 and spent["evaluate"] > 0.01 * 8
    assert {"learn", "act", "transfer", "keep", "save", "rest", "compile"} <= set(spent)
    page = report([run.directory], tmp_path / "page.html").read_text()
    assert "Where the time went" in page and "step: waiting for environments" in page


def test_on_the_device_the_loop_is_one_program(tmp_path):
    run = small.train(tmp_path / "run", "ppo", steps=64)
    spent = json.loads((run.directory / "time.json").read_text())
    assert spent["loop"] > 0 and not {"act", "step", "learn"} & set(spent)
