"""The times of a run's checkpoints, and its behaviour on a full disk and with a closed terminal."""

import dataclasses
import errno
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from forage.config.resolve import resolve
from forage.core import checkpoint, streams
from forage.core.storage import archives
from forage.core.types import ForageError
from forage.runs import training
from forage.runs.checkpoints import Checkpoints, Interval, Keeping, is_full
from forage.runs.session import Session


class Clock:
    """A run by the clock: training from 0 on, and saving in no time unless `cost` is given."""

    def __init__(self, seconds, cost=0.0):
        self.interval = Interval(seconds, 0.0)
        if cost:
            self.interval.save(-cost, 0.0, True)
        self.interval.train(0.0)

    def due(self, now, ahead=0.0):
        return self.interval.due(now, ahead)


def test_a_run_saves_before_more_than_its_seconds_are_lost():
    assert [Clock(30).due(now) for now in (0, 29, 30, 31)] == [False, False, False, True]
    # An evaluation of ten minutes at second 5 would leave five seconds of training unsaved for them.
    assert not Clock(30).due(5) and Clock(30).due(5, 600)
    assert not Clock(30).due(5, 20) and Clock(30).due(5, 26)
    # A save of 3 s comes once a minute at most, and an evaluation makes that minute pass sooner.
    assert [Clock(30, cost=3).due(now) for now in (31, 59, 60)] == [False, False, True]
    assert Clock(30, cost=3).due(5, 600)
    assert [Clock(0).due(now) for now in (0, 0.1)] == [False, True]


def test_the_time_of_evaluations_does_not_put_off_saving():
    """Saved at 100 s, a callback of ten minutes, training again: three hours passed until the next one."""
    interval = Interval(30, 0.0)
    interval.train(90.0)
    interval.save(100.0, 100.1, True)
    assert not interval.due(700.0), "nothing was trained since"
    interval.train(700.1)
    assert [interval.due(now) for now in (701, 730, 731)] == [False, False, True]
    interval.save(731, 731.1, False)  # no room: it is tried again as late as after a whole one
    assert [interval.due(now) for now in (732, 761, 762)] == [False, False, True]


class Agent:
    """A stand-in for a runner with checkpoints of 40 kB and agents of 4 kB."""

    steps, members = 0, 1

    def save(self, path, header):
        checkpoint.save_tree(path, {"memory": np.full(10_000, self.steps + 1.5, np.float32)}, header)

    def agent_states(self):
        return {"weight": jnp.full(1_000, self.steps + 0.5)}


class Disk:
    """A disk of limited size: writing beyond it fails."""

    def __init__(self, monkeypatch, folder, size):
        self.folder, self.size, write = folder, size, os.fsync

        def fsync(file):
            write(file)
            if self.free < 0:
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(archives.os, "fsync", fsync)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=max(0, self.free)))

    @property
    def free(self):
        return self.size - sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
def kept_files(tmp_path):
    notes: list[str] = []
    runner = Agent()
    shown = SimpleNamespace(note=notes.append, notes=notes)
    found = Checkpoints(tmp_path, runner, shown)  # type: ignore[arg-type]

    def at(steps):
        runner.steps = steps
        found.save({"steps": steps, "seconds": 1.0})

    def files():
        return sorted(int(path.stem) for path in (tmp_path / "checkpoints").glob("*.npz"))

    return SimpleNamespace(it=found, at=at, files=files, runner=runner, path=tmp_path)


def agent_at(path):
    return checkpoint.read_header(path / "agent.npz")["steps"]


def test_the_older_checkpoint_makes_room_for_a_new_one(kept_files, monkeypatch):
    kept_files.at(10)
    kept_files.at(20)
    kept_files.at(30)
    assert kept_files.files() == [20, 30]
    disk = Disk(monkeypatch, kept_files.path, 0)
    disk.size = 100_000  # two checkpoints and the agents take 90 kB
    kept_files.at(40)
    assert kept_files.files() == [30, 40] and agent_at(kept_files.path) == 40
    assert not list(kept_files.path.rglob("*.tmp"))


def test_the_agents_are_kept_where_no_checkpoint_fits(kept_files, monkeypatch):
    kept_files.at(10)
    disk = Disk(monkeypatch, kept_files.path, 60_000)
    with pytest.raises(ForageError, match="No space left on device") as caught:
        kept_files.at(20)
    assert is_full(caught.value) and kept_files.files() == [10], "the only whole one is there"
    said = kept_files.it.save_agents({"steps": 20, "seconds": 1.0})
    assert "The agents of step 20 are saved in" in said and "is of step 10." in said
    assert agent_at(kept_files.path) == 20 and kept_files.files() == [10] and kept_files.it.steps == 10
    # Not even the agents fit beside it.
    kept_files.runner.steps, disk.size = 30, disk.size - disk.free + 1_000
    said = kept_files.it.save_agents({"steps": 30, "seconds": 1.0})
    assert "only without the checkpoint of step 10, so resuming is over." in said
    assert agent_at(kept_files.path) == 30 and kept_files.files() == [] and kept_files.it.steps is None


def test_nothing_goes_where_that_makes_no_room(kept_files, monkeypatch):
    kept_files.at(10)
    disk = Disk(monkeypatch, kept_files.path, 10_000_000)
    monkeypatch.setattr(archives.os, "fsync", lambda file: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space")))
    assert kept_files.it.save_agents({"steps": 20, "seconds": 1.0}) == ""
    assert disk.free > 0 and kept_files.files() == [10] and agent_at(kept_files.path) == 10


def test_a_damaged_best_blocks_nothing(tmp_path):
    setup = dataclasses.replace(resolve("ppo", "CartPole-v1", steps=64, seeds=1), keep="best", evaluation_every=16)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "best.npz").write_bytes(b"PK\x03\x04 half a file")
    notes: list[str] = []
    runner = SimpleNamespace(steps_per_iteration=16, steps=32, agent_states=lambda: {"weight": np.ones(3)})
    shown = SimpleNamespace(note=notes.append)
    keeping = Keeping(tmp_path, setup, runner, shown)  # type: ignore[arg-type]
    (said,) = notes
    assert "best.npz is not a whole Forage checkpoint" in said and "takes its place." in said
    assert keeping.keep_if_best({"return": [[5.0]]}) == ""
    header = checkpoint.read_header(tmp_path / "kept" / "best.npz")
    assert header["score"] == 5.0 and header["steps"] == 32
    assert Keeping(tmp_path, setup, runner, shown).best == 5.0  # type: ignore[arg-type]
    assert len(notes) == 1


@pytest.fixture
def handlers():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_closed_terminal_stops_a_run_as_other_signals_do(handlers):
    from forage.core import compiling

    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    one = SimpleNamespace(interrupted=None)
    assert signal.SIGHUP in Session.catch_signals(one)  # type: ignore[arg-type]
    signal.raise_signal(signal.SIGHUP)
    assert one.interrupted == compiling.stop.by == "SIGHUP"
    signal.raise_signal(signal.SIGHUP)  # the system and the shell send one each
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    compiling.stop.by = ""


def test_nohup_keeps_its_promise(handlers):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    one = SimpleNamespace(interrupted=None)
    assert signal.SIGHUP not in Session.catch_signals(one)  # type: ignore[arg-type]
    signal.raise_signal(signal.SIGHUP)
    assert one.interrupted is None and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_nothing_is_shown_on_a_closed_terminal(tmp_path):
    ours, theirs = pty.openpty()
    other = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    os.close(ours)
    with pytest.raises(OSError, match="Input/output error"):
        os.write(theirs, b"a line\n")
    streams.leave_closed_terminal((theirs, other))
    assert os.write(theirs, b"a line\n") == 7
    os.write(other, b"a line\n")
    assert Path(tmp_path / "out").read_text() == "a line\n"
    os.close(theirs)
    os.close(other)


def test_compiled_programs_have_a_limit(tmp_path):
    for number in range(8):
        path = tmp_path / f"program-{number}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1_000 + number, 1_000 + number))
    (tmp_path / "folder").mkdir()
    os.utime(tmp_path / "program-0-cache", (2_000, 1_000))  # the oldest, and used last
    training.keep_within(str(tmp_path), 800)
    assert len(list(tmp_path.iterdir())) == 9
    training.keep_within(str(tmp_path), 500)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["folder", "program-0-cache", "program-6-cache", "program-7-cache"]
    training.keep_within(str(tmp_path / "nowhere"), 500)


@pytest.mark.thorough
def test_the_limit_of_compiled_programs_is_jaxs_where_it_is_set(tmp_path):
    """In processes of their own: one compiles, the next finds too much and deletes, and compiles again."""
    code = (
        "from forage.runs.training import use_compilation_cache; use_compilation_cache(); import jax\n"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)\n"
        "for n in range(1, 5): print(jax.jit(lambda x: x * n + 1)(1.0))"
    )
    folder = tmp_path / "forage" / "compiled"
    sizes = []
    for limit in ("-1", "3000"):
        given = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
        given |= {"XDG_CACHE_HOME": str(tmp_path), "JAX_COMPILATION_CACHE_MAX_SIZE": limit}
        done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["2.0", "3.0", "4.0", "5.0"], done.stderr
        sizes.append(sum(path.stat().st_size for path in folder.iterdir()))
    assert sizes[0] > 3000 >= sizes[1]
