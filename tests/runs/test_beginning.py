"""A failed start leaves no files in the way of the next one."""

import pytest

from forage.core.errors import ForageError, RunInterrupted
from forage.runs.locking import removed_if_failed


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
