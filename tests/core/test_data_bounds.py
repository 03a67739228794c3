"""Data of another scale than its environment; convert and train warn of it once."""

import types

import numpy as np
from gymnasium import spaces

import forage.data
from forage.core.bounds import data_outside
from forage.core.types import Spec
from forage.data import files
from forage.data.formats import flat
from forage.data.logged import Transitions
from forage.memory.dataset import DataSet
from forage.runs.faults import Bounds

SPEC = Spec("Room", spaces.Box(np.array([-1, -9], np.float32), np.array([1, 9], np.float32)), spaces.Discrete(2))


def observe(outside):
    """Return a hundred observations; `outside` of them have 5 beyond a bound of 1."""
    rows = np.zeros((100, 2), np.float32)
    rows[:outside, 0] = 5
    return rows


def test_a_few_rows_outside_are_a_simulators():
    assert data_outside("a.npz", observe(1), SPEC.observation_space, "Room") is None
    said = data_outside("a.npz", observe(2), SPEC.observation_space, "Room")
    assert said is not None and said.startswith(
        "a.npz has observations outside the bounds of Room in 2 of 100 rows: entry 0 was 5, 4 above its bound 1."
    )
    nested = spaces.Dict(at=SPEC.observation_space, level=spaces.Discrete(3))
    rows = {"at": observe(50), "level": np.zeros(100, int)}
    assert "in 50 of 100 rows: at entry 0 was 5" in str(data_outside("a.npz", rows, nested, "Room"))


def test_convert_and_training_say_it_once(tmp_path):
    no, ends = np.zeros(100, bool), np.arange(100) % 10 == 9
    data = Transitions(observe(99), np.zeros(100, int), np.ones(100), observe(99), ends, no)
    files.write_data(tmp_path / "a.npz", data, {"spec": flat.spec_json(SPEC)})
    said: list[str] = []
    forage.data.convert(tmp_path / "a.npz", tmp_path / "b.npz", tell=said.append)
    assert len(said) == 1 and "in 99 of 100 rows" in said[0]
    memory = DataSet(str(tmp_path / "a.npz")).load(SPEC)
    runner = types.SimpleNamespace(learner=types.SimpleNamespace(memory=memory), current_observations=None)
    notes: list[str] = []
    bounds = Bounds(types.SimpleNamespace(spec=SPEC, name="Room"), runner, types.SimpleNamespace(note=notes.append))
    bounds.look()
    bounds.look()
    assert len(notes) == 1 and notes[0].startswith("Note: ") and "in 99 of 100 rows" in notes[0]
