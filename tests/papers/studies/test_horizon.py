"""The measured horizon: the trials, the omissions, and the requirements."""

import json

import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments.tabular.mdp import Tabular
from forage.runs.curve import read_rows
from forage_papers.studies import horizon


def two_ways():
    """Left has reward 1 and ends; right three times has reward 3: 0.75 at random, 1.5 with one planned step."""
    transition, reward = np.zeros((4, 2, 4)), np.zeros((4, 2))
    transition[:, :, 3] = 1.0
    for state in (0, 1):
        transition[state, 1] = np.eye(4)[state + 1]
    reward[0, 0], reward[2, 1] = 1.0, 3.0
    return Tabular(transition, reward, np.eye(4)[0], np.eye(4, dtype=bool)[3], 3)


@pytest.mark.thorough
def test_one_step_of_planning_solves_what_none_does(tmp_path):
    options = {"regression_steps": 150, "hidden_sizes": (16,), "rollout_length": 24}
    found = horizon.measure_horizon(two_ways(), 2.0, (1, 2), (256,), (0, 1), tmp_path, options)
    assert (found.horizon, found.steps, found.episodes) == (2 + 8, 2, 256)
    assert [(t.steps, t.episodes, t.solved) for t in found.tried] == [(1, 256, False), (2, 256, True)]
    assert found.tried[0].returns == [1.0, 1.0] and found.tried[1].returns == [3.0, 3.0]
    points = read_rows(tmp_path / "2-256" / "metrics.jsonl")
    for point in points:  # m episodes for each decision, of the four times as many and more that were played
        assert point["usable_episodes"] == [256, 256] and min(point["episodes"]) > 1000
    assert points


def test_what_cannot_do_better_is_left_out(monkeypatch, tmp_path):
    class Run:
        def __init__(self, value):
            self.evaluation = json.loads(json.dumps({"return": [value] * 2}))

    asked = []

    def train(name, **settings):
        options = settings["agent_options"]
        asked.append((options["planning_depth"], options["num_envs"]))
        assert options["first_only"]
        assert settings["steps"] == options["num_envs"] * 6 * 3  # a rollout of two episodes for each decision
        return Run(3.0 if asked[-1] in {(1, 16), (2, 4)} else 0.0)

    monkeypatch.setattr(horizon.training, "train", train)
    found = horizon.measure_horizon(two_ways(), 2.0, (1, 2, 3), (2, 4, 16), (0, 1), tmp_path)
    assert asked == [(1, 2), (1, 4), (1, 16), (2, 2), (2, 4)]  # 3 + log_2 2 is 4, as 2 + log_2 4 is
    assert (found.horizon, found.steps, found.episodes) == (4.0, 2, 4)
    nothing = horizon.measure_horizon(two_ways(), 9.0, (1,), (2,), (0, 1), tmp_path)
    assert nothing[:3] == (np.inf, None, None) and len(nothing.tried) == 1


def test_what_it_cannot_measure():
    with pytest.raises(ForageError, match="no known end"):
        horizon.measure_horizon(
            Tabular(*[getattr(two_ways(), n) for n in ("transition", "reward", "initial", "terminal")]), 1.0
        )
    with pytest.raises(ForageError, match="a rollout_length of 6 or more"):
        horizon.measure_horizon(two_ways(), 1.0, options={"rollout_length": 2})
