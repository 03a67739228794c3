"""Standard output may be closed, full, or of an encoding that lacks characters."""

import errno
import io
import os
import subprocess
import sys

import pytest
import small

from forage.runs import display as progress

TELL = "from forage.cli.entry import as_command; as_command(lambda: print('\\u03b8', '\\u2581\\u2588', 'x' * {length}))"


def shell(words: str, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code with its output redirected as a shell's `words` say."""
    command = f'exec "$0" -c "$1" {words}'
    return subprocess.run(
        ["sh", "-c", command, sys.executable, code],
        capture_output=True,
        text=True,
        timeout=small.PATIENCE,
        env=os.environ | environment,
    )


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "ascii:surrogateescape", "latin-1:strict"])
def test_characters_that_an_encoding_lacks_are_replaced(encoding):
    found = shell("", TELL.format(length=2), PYTHONUTF8="0", PYTHONIOENCODING=encoding)
    assert (found.returncode, found.stdout, found.stderr) == (0, "? ?? xx\n", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
@pytest.mark.parametrize("length", [2, 100_000])
def test_full_output_is_one_sentence(length):
    found = shell("> /dev/full", TELL.format(length=length))
    assert found.returncode == 2
    assert found.stderr == "Standard output could not be written (No space left on device).\n"


def test_closed_output_goes_nowhere_and_not_into_the_next_file(tmp_path):
    code = f"""
import os
from forage.cli.entry import as_command
def work():
    with open({str(tmp_path / "data")!r}, "w") as file:
        print("lost")
        os.system("echo from another process")
        file.write("data")
as_command(work)
"""
    found = shell(">&- 2>&-", code)
    assert (found.returncode, (tmp_path / "data").read_text()) == (0, "data")


class Full(io.StringIO):
    """A standard output that takes some lines."""

    def __init__(self, lines: int):
        super().__init__()
        self.lines = lines

    def flush(self) -> None:
        self.lines -= 1
        if self.lines < 0:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("kind", ["plain", "json"])
def test_training_goes_on_without_lines_that_cannot_be_written(kind, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", Full(1))
    display = progress.make_steady(kind)
    display.settings = 1
    display.start("title", ["one", "two"], 10)
    for number in range(3):
        display.note(f"note {number}")
        display.row({"steps": number, "steps_per_second": 1.0})
    display.stop()
    display.finish({}, ["end"])
    said = capsys.readouterr().err.splitlines()
    assert (
        said[0] == "Standard output could not be written (No space left on device); the run goes on without its lines."
    )
    assert set(said[1:]) <= {"note 0", "note 1", "note 2"} and said[-1] == "note 2"


def test_a_display_writes_what_a_stream_can_take(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    display = progress.make_steady("plain")
    display.finish({}, ["curve \u2581\u2588"])
    assert (stream.buffer.getvalue(), stream.errors) == (b"curve ??\n", "strict")


def test_errors_of_ones_own_display_are_ones_own():
    own = progress.Progress()
    assert progress.make_steady(own) is own
