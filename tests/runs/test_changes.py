"""A run's history: the changes on the way, and the places that report them."""

import dataclasses
import json

import pytest
import small

import forage
from forage.config import part_data, registry
from forage.runs import changes
from forage.runs.run import Run
from forage.studies.report import report

small.keep_compiled()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small.train(tmp_path_factory.mktemp("runs") / "run")


@pytest.mark.thorough
def test_what_is_given_otherwise_is_recorded(run, tmp_path, capsys):
    agent = part_data.from_config(run.config["agent"])
    before = (run.directory / "config.json").read_bytes()
    forage.resume(run.directory, agent=agent, display="quiet")  # as it was
    assert (run.directory / "config.json").read_bytes() == before and run.history == []
    changed = dataclasses.replace(agent, learning_rate=1e-5)
    rewards = registry.build("rewards", "scale", {"factor": 0.5})
    forage.resume(run.directory, agent=changed, rewards=rewards, display="quiet")
    now = Run(run.directory)
    assert now.config["agent"]["learning_rate"] == 1e-5 and now.config["rewards"]["part"] == "scale"
    assert {name: value for name, value in now.config.items() if name not in ("agent", "rewards")} == {
        name: value for name, value in json.loads(before).items() if name not in ("agent", "rewards")
    }
    (row,) = now.history
    was = str(run.config["agent"]["learning_rate"])
    assert row["event"] == "changed" and row["steps"] == 160
    assert row["settings"]["agent.learning_rate"] == [was, "1e-05"]
    assert row["settings"]["rewards.part"] == ["environment", "scale"] and row["settings"]["rewards.factor"][1] == "0.5"
    said = f"from step 160 on agent.learning_rate 1e-05, before {was}"
    assert said in changes.history_sentences(now)
    assert said in report([str(run.directory)], str(tmp_path / "report.html")).read_text()
    code, out, _ = small.run_command(capsys, "show", run.directory)
    assert code == 0 and said in out and "return " in out and "evaluation episodes each" in out
    forage.resume(run.directory, display="quiet")  # what it is by now is what it goes on with
    assert Run(run.directory).config["agent"]["learning_rate"] == 1e-5 and len(now.history) == 1


def test_what_counts_as_a_change():
    then = {"agent": {"part": "dqn", "double": True, "of": {"object": "<function f at 0x7f01>"}}, "steps": 5}
    now = {"agent": {"part": "dqn", "double": True, "new": 1, "of": {"object": "<function f at 0x7f99>"}}, "steps": 5}
    assert changes.changed_settings(then, now) == {}  # another version's option, and another address
    now = {"agent": {"part": "ppo", "clip": 0.2}, "steps": 6}
    assert changes.changed_settings(then, now) == {
        "agent.part": ["dqn", "ppo"],
        "agent.double": ["True", None],
        "agent.of.object": ["<function f at 0x7f01>", None],
        "agent.clip": [None, "0.2"],
        "steps": ["5", "6"],
    }


def test_a_parent_and_other_versions_are_told(run, tmp_path):
    directory = tmp_path / "child"
    directory.mkdir()
    parent = {"run": "runs/parent", "steps": 20_000}
    (directory / "config.json").write_text(json.dumps(run.config | {"parent": parent}))
    child = Run(directory)
    changes.record_changes(child, {"steps": child.config["steps"]}, 80, "jax 1 (here 2)")
    assert child.parent == parent and Run(directory).parent == parent and run.parent is None
    assert changes.history_sentences(child) == [
        "begun from runs/parent as of its step 20,000",
        "from step 80 on not as begun with jax 1 (here 2)",
    ]


def test_a_run_tells_one_story_and_one_from_before_does_too(run, tmp_path):
    """Extensions and stops were in config.json, changes in changes.jsonl; now all of it is in history.jsonl."""
    old = [
        {"event": "extended", "steps": 160, "from": 160, "to": 320},
        {"event": "stopped", "steps": 300, "reason": "x"},
    ]
    (tmp_path / "config.json").write_text(json.dumps(run.config | {"history": old}))
    row = {"steps": 240, "date": "2026-01-01", "settings": {"agent.clip": ["0.2", "0.1"]}}
    (tmp_path / "changes.jsonl").write_text(json.dumps(row) + "\n")
    one = Run(tmp_path)
    changes.record_event(one, "extended", 300, {"from": 320, "to": 640}, {"steps": 640})
    changes.record_changes(one, {"steps": 640, "agent": {"part": "dqn"}}, 480)
    one = Run(tmp_path)
    assert one.config == run.config | {"history": old, "steps": 640, "agent": {"part": "dqn"}}
    assert [(row["event"], row["steps"]) for row in one.history] == [
        ("extended", 160),
        ("changed", 240),
        ("stopped", 300),
        ("extended", 300),
        ("changed", 480),
    ]
    said = changes.history_sentences(one)
    assert said[:4] == [
        "extended at step 160 to 320, before 160",
        "from step 240 on agent.clip 0.1, before 0.2",
        "stopped at step 300: x",
        "extended at step 300 to 640, before 320",
    ]
    assert "from step 480 on agent.part dqn, before ppo" in said[4:]
