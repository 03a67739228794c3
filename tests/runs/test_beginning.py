"""A failed start leaves no files in the way of the next one."""

from pathlib import Path

import pytest

from forage.core.errors import ForageError, RunInterrupted
from forage.runs.locking import hold_new_directory, removed_if_failed


def fail(directory, error, left_nothing=True, before=()):
    """Begin in a directory with earlier files, write one more and fail. Return the files left there."""
    directory.mkdir()
    for name in before:
        (directory / name).touch()
    with pytest.raises(type(error)), removed_if_failed(directory, lambda: left_nothing):
        (directory / "config.json").touch()
        raise error
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else None


@pytest.mark.parametrize("error", [ForageError("bad"), KeyboardInterrupt(), OSError(28, "full"), RuntimeError("no")])
def test_a_failed_start_is_removed_unless_it_learned(tmp_path, error):
    assert fail(tmp_path / "fresh", error) is None
    assert fail(tmp_path / "learned", error, left_nothing=False) == ["config.json"]
    assert fail(tmp_path / "others", error, before=("mine.txt",)) == ["config.json", "mine.txt"]


def test_an_interrupted_start_can_be_resumed(tmp_path):
    assert fail(tmp_path / "run", RunInterrupted("Stopped by Ctrl-C.")) == ["config.json"]


@pytest.mark.parametrize("folder", ["new/inner/run", "runs/run"])
def test_folders_that_were_made_for_a_failed_start_are_removed(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    directory = Path(folder)
    if folder.startswith("runs"):
        directory.mkdir(parents=True)  # as a run's directory without a name of its own is made
    with pytest.raises(ForageError), hold_new_directory(directory, lambda: True):
        raise ForageError("No.")
    assert not any(tmp_path.iterdir())
    Path("runs/other").mkdir(parents=True)
    with pytest.raises(ForageError), hold_new_directory(Path("runs/run"), lambda: True):
        raise ForageError("No.")
    assert [path.name for path in Path("runs").iterdir()] == ["other"]
