"""Runs that claims need of others are made once, and their replays hold every step in order."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from forage.data import files
from forage.runs import training
from forage.studies.claims import prepared

OPTIONS = (("hidden_sizes", (4,)), ("batch_size", 4), ("learning_starts", 30))


@pytest.mark.thorough
def test_a_replay_holds_every_step_and_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setattr(prepared, "FOLDER", tmp_path)
    file = prepared.replay("sac", "Pendulum-v1", 60, 3, OPTIONS)
    found = files.read_data(Path(file))[0]
    assert len(found.reward) == 60
    np.testing.assert_array_equal(found.observation[1:], found.next_observation[:-1])  # one episode, in order
    monkeypatch.setattr(training, "train", None)
    prepared.replay.cache_clear()
    assert prepared.replay("sac", "Pendulum-v1", 60, 3, OPTIONS) == file
    assert len(list(tmp_path.glob("*.npz"))) == 1


HOLD = """
import fcntl, os, sys
os.makedirs(sys.argv[1])
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


CONFIG = {
    "agent": {"part": "sft"},
    "environment": {"id": "text:addition"},
    "steps": 64,
    "seeds": [0],
    "sweep": {},
    "spec": {"name": "text:addition", "observation_space": {}, "action_space": {}, "reward_names": []},
}


@pytest.mark.parametrize(
    ("left", "calls"),
    [
        (("config.json", "evaluation.json"), []),
        (("config.json", "agent.npz"), ["resume"]),  # it died before its score
        ((), ["train"]),  # it died before it had saved anything
    ],
)
def test_a_run_that_another_claim_trains_is_waited_for(left, calls, tmp_path, monkeypatch, capfd):
    """Its result is used; a run that the other claim leaves behind when it dies is finished."""
    called = []
    for name in ("train", "resume"):
        monkeypatch.setattr(training, name, lambda *words, name=name, **options: called.append(name))
    monkeypatch.setattr(prepared, "FOLDER", tmp_path / "elsewhere")
    directory = tmp_path / Path(prepared.train_agent("sft", "text:addition", 64)).name
    assert called.pop() == "train" and capfd.readouterr().err == ""
    monkeypatch.setattr(prepared, "FOLDER", tmp_path)
    command = [sys.executable, "-c", HOLD, str(tmp_path / ".locks" / directory.name)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        found: list[str] = []
        one = threading.Thread(target=lambda: found.append(prepared.train_agent("sft", "text:addition", 64)))
        one.start()
        one.join(0.2)
        assert one.is_alive() and not called
        directory.mkdir()
        for file in left:
            (directory / file).write_text(json.dumps(CONFIG if file == "config.json" else {"return": [1.0]}))
        other.kill()
    one.join(10)
    assert found == [str(directory)] and called == calls
    said = capfd.readouterr().err
    assert said == f"Another claim trains {directory}, which this one needs as well; waiting for it.\n"
