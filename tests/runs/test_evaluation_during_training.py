"""Evaluation apart from training: at points of it, without a trace in it, by the best guess or as in training."""

import json

import numpy as np
import pytest
import small
from small import differing_files, train

import forage
from forage.core.types import ForageError

small.keep_compiled()


def last(run):
    return run.checkpoints[-1]


@pytest.mark.parametrize("environment", ["CartPole-v1", "gymnasium:CartPole-v1"])
@pytest.mark.thorough
def test_points_leave_no_trace_in_training(environment, tmp_path):
    without = train(tmp_path / "without", environment=environment)
    run = train(tmp_path / "with", environment=environment, evaluation_every=48)
    assert not differing_files(last(without), last(run))
    timeless = [{k: v for k, v in row.items() if "second" not in k} for row in run.rows]
    assert timeless == [{k: v for k, v in row.items() if "second" not in k} for row in without.rows]
    assert without.evaluations == []
    # Whole iterations, 16 steps here, from before the first one.
    assert [row["steps"] for row in run.evaluations] == [0, 48, 96, 144]
    steps, values = run.curve(evaluated=True)
    assert values.shape == (2, len(steps)) and np.isfinite(values).all()
    assert run.config["evaluation_every"] == 48


@pytest.mark.thorough
def test_points_are_the_same_after_a_stop(tmp_path):
    whole = train(tmp_path / "whole", evaluation_every=32, checkpoint_seconds=0)
    stopped = train(tmp_path / "stopped", evaluation_every=32, checkpoint_seconds=0)
    # As a kill would leave it: the last checkpoint is gone, the points after it are written, one of them by half.
    last(stopped).unlink()
    lines = (tmp_path / "stopped" / "evaluations.jsonl").read_text()
    (tmp_path / "stopped" / "evaluations.jsonl").write_text(lines + lines.splitlines()[-1][:9])
    assert stopped.checkpoints
    forage.resume(tmp_path / "stopped", display="quiet")
    assert stopped.evaluations == whole.evaluations and len(whole.evaluations) == 6
    assert not differing_files(last(whole), last(stopped))


@pytest.mark.thorough
def test_sampled_actions_are_those_of_training(tmp_path):
    run = train(tmp_path / "run", evaluation_episodes=20, evaluation_actions="greedy")
    greedy = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert greedy["actions"] == "greedy"
    forage.evaluate(tmp_path / "run", episodes=20, actions="sampled")
    sampled = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert sampled["actions"] == "sampled"
    # An agent that hardly learned has a favourite action, and pushing always that way is soon over.
    assert np.mean(sampled["return"]) != np.mean(greedy["return"])
    forage.evaluate(tmp_path / "run", episodes=20)
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text())["actions"] == "greedy"
    assert not run.agent.sampled


@pytest.mark.thorough
def test_a_run_keeps_how_it_is_evaluated(tmp_path):
    run = train(tmp_path / "run", evaluation_actions="sampled")
    assert run.config["evaluation_actions"] == "sampled" and run.evaluation["actions"] == "sampled"
    assert run.agent.sampled
    seen = np.array([0.0, 0.0, 0.0, 0.0], np.float32)
    agent = run.agent
    assert len({int(agent.act(seen)) for _ in range(40)}) == 2  # it draws
    assert len({int(agent.act(seen, explore=False)) for _ in range(10)}) == 1


def test_bad_input(tmp_path):
    with pytest.raises(ForageError, match="greedy or sampled, not 'best'"):
        train(tmp_path / "a", evaluation_actions="best")
    with pytest.raises(ForageError, match="1 or more, not 0"):
        train(tmp_path / "a", evaluation_every=0)
    assert not (tmp_path / "a").exists()
