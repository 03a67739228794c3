"""A run's directory is its own: no file of others is touched, and no two processes train in it."""

import fcntl
import json
import os
import subprocess
import sys

import pytest
import small

import forage
from forage.core.types import ForageError
from forage.runs import locking, training
from forage.runs.checkpoints import OURS
from forage.runs.run import Run
from forage.studies.tuning.tune import check_directory

VERSIONS = {"forage": "0.1", "jax": "0.1", "equinox": "0.1"}


def put(directory, files):
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
    return directory


FOREIGN = [
    {"config.json": {"model_type": "llama"}, "metrics.jsonl": "precious"},
    {"checkpoints/my_model.npz": "mine"},
    {"notes.txt": "mine"},
    {"config.json": "not json"},
    {"versions.json": {"torch": "2"}},
    {"a/b": ""},
]


@pytest.mark.parametrize("files", FOREIGN)
def test_a_directory_with_files_of_others_is_refused(tmp_path, files, capsys):
    there = put(tmp_path / "d", files)
    before = {path: path.read_bytes() for path in there.rglob("*") if path.is_file()}
    code, _, said = small.run_command(
        capsys, "train", "ppo", "CartPole-v1", "--seeds", "1", "--steps", "1k", "--directory", there
    )
    assert code == 2 and "holds files that are not Forage's" in said and said.count("\n") == 1
    with pytest.raises(ForageError, match="not Forage's"):
        check_directory(there, {})
    assert {path: path.read_bytes() for path in there.rglob("*") if path.is_file()} == before


def test_what_a_failed_start_left_is_no_obstacle(tmp_path):
    for number, files in enumerate(
        ({}, {".DS_Store": "", ".lock": ""}, {"versions.json": VERSIONS, "metrics.csv": ""})
    ):
        Run.check_free(put(tmp_path / str(number), files))
    Run.check_free(tmp_path / "new")
    (tmp_path / "file").write_text("")
    with pytest.raises(ForageError, match="Could not make"):
        Run.check_free(tmp_path / "file")
    with pytest.raises(ForageError, match="already holds a run"):
        Run.check_free(put(tmp_path / "run", {"config.json": {}, "checkpoints/000000000001.npz": ""}))


def test_a_second_training_is_refused_under_the_lock(tmp_path, monkeypatch):
    """The first one may have come and gone while the second was being made."""
    there = tmp_path / "run"
    first = {"config.json": {"mine": True}, "evaluation.json": {}}
    monkeypatch.setattr(training, "check_memory", lambda runner, names: put(there, first))
    with pytest.raises(ForageError, match="already holds a run"):
        forage.train("ppo", "CartPole-v1", steps=100, seeds=1, directory=there, display="quiet")
    assert json.loads((there / "config.json").read_text()) == {"mine": True}
    assert sorted(path.name for path in there.iterdir()) == ["config.json", "evaluation.json"]


def test_only_checkpoints_of_ones_own_are_taken_away():
    assert OURS.fullmatch("000000000512.npz") and OURS.fullmatch("1000000000000.npz")
    assert not any(OURS.fullmatch(name) for name in ("my_model.npz", "512.npz", "best.npz", "000000000512.npz.bak"))


def test_one_process_holds_a_directory(tmp_path):
    with locking.lock_directory(tmp_path / "run"):
        for other in (tmp_path / "run", tmp_path / "." / "run"):
            with pytest.raises(ForageError, match="being trained by another process"), locking.lock_directory(other):
                pass
    (tmp_path / "run" / ".config.json.123.tmp").write_text("what a process that was killed has left")
    (tmp_path / "run" / ".mine.tmp").write_text("")
    with locking.lock_directory(tmp_path / "run"):
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".mine.tmp"]


def test_where_a_directory_cannot_be_locked_a_file_in_it_is(tmp_path, monkeypatch):
    def flock(*given):
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", flock)
    with locking.lock_directory(tmp_path):
        pass
    hold = f"f = open({str(tmp_path / '.lock')!r}, 'w'); fcntl.lockf(f, fcntl.LOCK_EX)"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    program = f"import fcntl; {hold}; print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(ForageError, match="being trained by another process"), locking.lock_directory(tmp_path):
            pass
        other.kill()
    with locking.lock_directory(tmp_path):  # the system lets go when a process ends
        pass
    monkeypatch.setattr(fcntl, "lockf", flock)
    (tmp_path / ".left.1.tmp").write_text("of a process that may be writing")
    with (
        pytest.warns(UserWarning, match="cannot be locked .* no other process trains there"),
        locking.lock_directory(tmp_path),
    ):
        assert (tmp_path / ".left.1.tmp").exists()


def test_a_link_in_place_of_a_runs_file_is_not_followed(tmp_path):
    from forage.runs.curve import CurveRows

    (tmp_path / "precious").write_text("mine")
    os.symlink(tmp_path / "precious", tmp_path / "metrics.jsonl")
    with pytest.raises(ForageError, match="Could not write"):
        CurveRows(tmp_path / "metrics.jsonl").append({"steps": 1})
    assert (tmp_path / "precious").read_text() == "mine"
