"""Runs that claims need of others are made once, and their replays hold every step in order."""

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
