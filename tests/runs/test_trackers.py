"""Trackers: each gets every point once, also after a stop; values that cannot be tracked cost one sentence."""

import csv
import importlib.machinery
import importlib.util
import json
import os
import signal
import struct
import sys
import types
from collections import Counter

import pytest
import small

import forage
from forage.core.errors import ForageError, RunInterrupted
from forage.runs import display as progress
from forage.runs import trackers, training
from forage.runs.trackers.base import final, flat_config, flatten_row

small.keep_compiled()

LINES = """
import json


class Lines:
    def __init__(self, directory, config, again):
        self.file = (directory / "lines.jsonl").open("a")
        print(json.dumps([config["agent"]["part"], again]), file=self.file)

    def write(self, steps, numbers):
        print(json.dumps([steps, numbers]), file=self.file, flush=True)

    def close(self):
        self.file.close()


class Half:
    def close(self): ...
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(LINES)
    return str(path)


def test_the_numbers_of_a_row():
    row = {"steps": 8, "seconds": 1.5, "steps_per_second": None, "return": [1.0, 2.0], "loss": [None, 4.0]}
    means = {"run/seconds": 1.5, "return": 1.5, "loss": 4.0}
    assert flatten_row(row) == means | {"return/0": 1.0, "return/1": 2.0, "loss/1": 4.0}
    assert flatten_row({"steps": 8, "return": [3.0], "loss": [None]}) == {"return": 3.0}
    assert final({"score": 2.0, "interval": [1.0, 3.0]}) == {"score": 2.0, "score/low": 1.0, "score/high": 3.0}
    assert final({"score": 2.0, "interval": None}) == {"score": 2.0}
    settings = [{"setting": "clip=0.1", "score": 2.0, "interval": None}, {"setting": "clip=0.2", "score": None}]
    assert final({"settings": settings}) == {"score/clip=0.1": 2.0}
    assert flat_config({"a": {"b": 1, "c": {"d": [2]}}, "e": None}) == {"a.b": 1, "a.c.d": [2], "e": None}


class Stop(progress.Progress):
    """Stops the run once as many points were shown."""

    def __init__(self, points):
        self.points, self.notes = points, []

    def row(self, row):
        self.points -= 1
        if self.points == 0:
            os.kill(os.getpid(), signal.SIGINT)

    def note(self, text):
        self.notes.append(text)


@pytest.mark.thorough
def test_a_run_that_was_stopped_tells_each_point_once(tmp_path, mine):
    names = [f"{mine}:Lines", "csv"]
    with pytest.raises(RunInterrupted):
        small.train(tmp_path / "run", track=names, evaluation_every=48, display=Stop(4))
    told = (tmp_path / "run" / "lines.jsonl").read_text().splitlines()
    assert 1 < len(told) < 16
    # As a kill leaves it: points after the last checkpoint were told, and are played again.
    run = training.resume(tmp_path / "run", display="quiet")
    assert run.config["track"] == names
    lines = [json.loads(line) for line in (run.directory / "lines.jsonl").read_text().splitlines()]
    assert [line for line in lines if line[0] == "ppo"] == [["ppo", False], ["ppo", True]]
    points = [line for line in lines if line[0] != "ppo"]
    kinds = Counter((steps, min(numbers).partition("/")[0]) for steps, numbers in points)
    assert set(kinds.values()) == {1}
    trained = [(steps, numbers) for steps, numbers in points if "return" in numbers or "run/seconds" in numbers]
    assert [steps for steps, _ in trained] == [row["steps"] for row in run.rows]
    assert trained[-1][1] == flatten_row(run.rows[-1])
    evaluated = [(steps, numbers["evaluation/return"]) for steps, numbers in points if "evaluation/return" in numbers]
    assert [steps for steps, _ in evaluated] == [0, 48, 96, 144, 160]
    assert points[-1] == [160, {"score": run.score.value} | interval(run.score)]

    rows = list(csv.DictReader((run.directory / "metrics.csv").read_text().splitlines()))
    assert [int(row["steps"]) for row in rows] == sorted({row["steps"] for row in run.rows + run.evaluations})
    assert float(rows[-1]["score"]) == run.score.value
    assert {row["steps"]: row["updates/1"] for row in rows if row["updates/1"]} == {
        str(row["steps"]): str(row["updates"][1]) for row in run.rows
    }
    assert json.loads((run.directory / "metrics.config.json").read_text()) == run.config


def interval(score):
    return {} if score.low is None else {"score/low": score.low, "score/high": score.high}


def open_one(name, directory, again=False, note=print):
    (one,) = trackers.open_trackers([name], directory, {"agent": {"part": "ppo"}}, again, note)
    return one


def test_a_tracker_that_fails_does_not_stop_training(tmp_path, mine):
    notes = []
    one = open_one(f"{mine}:Lines", tmp_path, note=notes.append)
    one.tracker.file.close()
    for steps in (8, 16):
        one.write({"steps": steps, "return": [1.0]})
    one.close()
    (note,) = notes
    assert note.startswith("The tracker ") and "closed file. Training goes on without it." in note


def test_one_registered_in_python(tmp_path, monkeypatch):
    monkeypatch.setattr(trackers, "REGISTERED", {})
    told = []

    class ToldTracker(forage.Tracker):
        def write(self, steps, numbers):
            told.append((steps, numbers))

    with pytest.raises(
        ForageError, match=r"ToldTracker is in no file .*; forage.register_tracker\('name', ToldTracker\) gives it"
    ):
        trackers.tracker_names(ToldTracker)
    forage.register_tracker("told", ToldTracker)
    assert trackers.tracker_names([ToldTracker, "told", "csv"]) == ["told", "csv"]
    one = open_one("told", tmp_path)
    one.write({"steps": 8, "return": [1.0]})
    one.write_score({"steps": 8, "score": 1.0})
    one.close()
    assert told == [(8, {"return": 1.0}), (8, {"score": 1.0})]
    assert trackers.tracker_names(trackers.tracker_class("csv")) == ["csv"]


def test_what_cannot_track(tmp_path, mine, monkeypatch):
    def raises(asked, said):
        with pytest.raises(ForageError, match=said):
            small.train(tmp_path / "run", track=asked)
        assert not (tmp_path / "run").exists()

    raises("wandb2", r"^Unknown tracker 'wandb2'. Available: tensorboard, wandb, mlflow, trackio, csv, or your own as ")
    raises([5], "A tracker is a name such as 'wandb' or a class, not a int")
    raises(f"{mine}:Half", "Half is not a tracker: it has no write; a subclass of forage.Tracker works")
    raises(f"{mine}:Lins", "has no class Lins; it has Lines")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name in ("tensorboard", "wandb", "mlflow", "trackio"):
        raises(name, rf"^The tracker {name} needs a package: pip install 'forage-rl\[{name}\]'.$")


ROWS = [{"steps": step, "return": [1.0 * step]} for step in (10, 20, 30)]
RESULT = {"steps": 30, "score": 2.0, "interval": [1.0, 3.0]}


def told_twice(name, directory):
    """Send two points, stop as a kill does, and continue as a resumed run does, to the end."""
    first = open_one(name, directory)
    for row in ROWS[:2]:
        first.write(row)
    first.close()
    again = open_one(name, directory, again=True)
    for row in ROWS:
        again.write(row)
    again.write_score(RESULT)
    again.close()
    assert json.loads((directory / "tracked.json").read_text())[name] == {
        "trained": 30,
        "score": {"score": 2.0, "score/low": 1.0, "score/high": 3.0},
    }


@pytest.fixture
def stand_in(monkeypatch):
    """Put modules of a name in place, that are imported as if a package were installed."""

    def put(name, **contents):
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return put


def test_wandb(tmp_path, stand_in):
    runs = {}

    class Run:
        def __init__(self, **words):
            self.words, self.history, self.summary, self.axes, self.finished = words, [], {}, [], 0

        def define_metric(self, name, step_metric):
            self.axes.append((name, step_metric))

        def log(self, numbers):
            self.history.append(numbers)

        def finish(self):
            self.finished += 1

    stand_in("wandb", init=lambda **words: runs.setdefault(words["id"], Run(**words)), Settings=dict)
    told_twice("wandb", tmp_path)
    (run,) = runs.values()
    assert run.words["config"] == {"agent": {"part": "ppo"}} and run.words["resume"] == "allow"
    assert run.history == [{"steps": step, "return": float(step)} for step in (10, 20, 30)]
    assert run.summary == {"score": 2.0, "score/low": 1.0, "score/high": 3.0}
    assert run.axes == [("*", "steps")] * 2 and run.finished == 2


def test_mlflow(tmp_path, stand_in, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:here")
    calls, made = [], types.SimpleNamespace(info=types.SimpleNamespace(run_id="one"))

    class Client:
        def __init__(self, uri):
            calls.append(("open", uri))

        def get_experiment_by_name(self, name):
            return None

        def create_experiment(self, name):
            return name

        def create_run(self, experiment, run_name):
            calls.append(("run", experiment, run_name))
            return made

        def log_batch(self, run, metrics=(), params=()):
            calls.extend((run, *one) for one in (*params, *metrics))

        def update_run(self, run, status):
            calls.append((run, status))

        set_terminated = update_run

    def metric(key, value, timestamp, step):
        return key, value, step

    entities = stand_in("mlflow.entities", Param=lambda *one: one, Metric=metric)
    stand_in("mlflow", MlflowClient=Client, entities=entities)
    told_twice("mlflow", tmp_path)
    first = [("open", "file:here"), ("run", "forage", tmp_path.name), ("one", "agent.part", "ppo")]
    first += [("one", "return", 10.0, 10), ("one", "return", 20.0, 20), ("one", "KILLED")]
    then = [("open", "file:here"), ("one", "RUNNING"), ("one", "return", 30.0, 30)]
    then += [("one", "score", 2.0, 30), ("one", "score/low", 1.0, 30), ("one", "score/high", 3.0, 30)]
    assert calls == [*first, *then, ("one", "FINISHED")]
    assert trackers.tracker_class("mlflow").__module__ == "forage.runs.trackers.services"


def test_trackio(tmp_path, stand_in):
    runs, over = {}, []

    class Run:
        def __init__(self, **words):
            self.words, self.history = words, []

        def log(self, numbers, step):
            self.history.append((step, numbers))

    stand_in(
        "trackio", init=lambda **words: runs.setdefault(words["name"], Run(**words)), finish=lambda: over.append(1)
    )
    told_twice("trackio", tmp_path)
    (run,) = runs.values()
    assert run.words["config"] == {"agent.part": "ppo"} and run.words["resume"] == "allow"
    points = [(step, {"return": float(step)}) for step in (10, 20, 30)]
    assert run.history == [*points, (30, {"score": 2.0, "score/low": 1.0, "score/high": 3.0})]
    assert len(over) == 2


@pytest.mark.thorough
def test_wandb_itself(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="the extra wandb is not installed")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    told_twice("wandb", tmp_path)
    wandb.teardown()  # as at the end of a process: waits for its own to write
    history, summary, config = [], {}, {}
    for path in sorted((tmp_path / "wandb").glob("offline-run-*/run-*.wandb")):
        for data in blocks(path.read_bytes()[7:]):
            record = Record.FromString(data)
            items = {item.key or item.nested_key[0]: item.value_json for item in record.history.item}
            history += [(json.loads(items["steps"]), json.loads(items["return"]))] if "return" in items else []
            summary |= {item.key or "/".join(item.nested_key): item.value_json for item in record.summary.update}
            config |= {item.key: item.value_json for item in record.run.config.update}
    assert history == [(10, 10.0), (20, 20.0), (30, 30.0)]
    assert json.loads(summary["score"]) == 2.0 and json.loads(config["agent"]) == {"part": "ppo"}


def blocks(data, size=32768):
    """Return the records of a LevelDB log, W&B's format of an offline run; its own 7 letters are before `data`."""
    found, at, before = [], 7, b""
    data = bytes(7) + data
    while at + 7 <= len(data):
        if size - at % size < 7:  # too little of a block is left
            at += size - at % size
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        before += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or its last part
            found.append(before)
            before = b""
    return found


@pytest.mark.thorough
def test_mlflow_itself(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "run").mkdir()
    told_twice("mlflow", tmp_path / "run")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    number = (tmp_path / "run" / "mlflow.id").read_text().strip()
    history = [(one.step, one.value) for one in client.get_metric_history(number, "return")]
    assert history == [(10, 10.0), (20, 20.0), (30, 30.0)]
    run = client.get_run(number)
    assert run.data.metrics["score"] == 2.0 and run.data.params == {"agent.part": "ppo"}
    assert run.info.status == "FINISHED" and run.info.run_name == "run"


@pytest.mark.thorough
def test_trackio_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio", reason="the extra trackio is not installed")
    from trackio.sqlite_storage import SQLiteStorage

    told_twice("trackio", tmp_path)
    (name,) = SQLiteStorage.get_runs("forage")
    logs = SQLiteStorage.get_logs("forage", name)
    assert [(one["step"], one["return"]) for one in logs if "return" in one] == [(10, 10.0), (20, 20.0), (30, 30.0)]
    assert [one["score"] for one in logs if "score" in one] == [2.0]
    assert SQLiteStorage.get_run_config("forage", name)["agent.part"] == "ppo"


def events(folder):
    """Return TensorBoard's values of each tag, by step: files are read by name, and a restart drops later steps."""
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    shown = {}
    for path in sorted(folder.iterdir()):
        data, at = path.read_bytes(), 0
        while at + 12 <= len(data):
            (length,) = struct.unpack("<Q", data[at : at + 8])
            event = Event.FromString(data[at + 12 : at + 12 + length])
            at += length + 16
            if event.session_log.status == SessionLog.START:
                shown = {tag: [(s, v) for s, v in points if s < event.step] for tag, points in shown.items()}
            for value in event.summary.value:
                shown.setdefault(value.tag, []).append((event.step, value.simple_value))
    return shown


def test_tensorboard_has_every_point_once_after_a_kill(tmp_path):
    pytest.importorskip("tensorboardX", reason="the extra tensorboard is not installed")
    told_twice("tensorboard", tmp_path)
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2  # begun in the same second
    shown = events(tmp_path / "tensorboard")
    assert shown["return"] == [(10, 10.0), (20, 20.0), (30, 30.0)]
    assert shown["score"] == [(30, 2.0)] and "config/text_summary" in shown
