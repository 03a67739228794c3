"""The trials on other versions of Python and JAX: their compilations, and failure at a time limit."""

import os
import stat
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import versions

from forage.cli.entry import COMMANDS as KNOWN


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Return a function that makes a Python with a given script."""

    def make(script: str) -> Path:
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
        return tmp_path

    return make


def test_a_program_that_compiles_too_long_fails(commands, tmp_path):
    slow = commands('echo "Compiling jit_act has taken 60 s and goes on; Ctrl-C ends it." >&2; exec sleep 100')
    with pytest.raises(versions.Failed, match="jit_act is not compiled after 60 s"):
        versions.compile_within(slow, "train", tmp_path)
    with pytest.raises(versions.Failed, match=r"took 61\.5 s to compile"):
        versions.compile_within(commands("echo longest 61.5"), "train", tmp_path)
    with pytest.raises(versions.Failed, match="No such environment"):
        versions.compile_within(commands("echo No such environment. >&2; exit 2"), "train", tmp_path)
    assert versions.compile_within(commands("echo longest 3.25"), "train", tmp_path) == 3.25


def test_a_failed_program_fails_all_of_them(commands, tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "PROGRAMS", {"one": "train a", "other": "train b"})
    made = commands('case "$*" in *"train a") echo longest 1.0;; *) echo Broken. >&2; exit 1;; esac')
    found = versions.compile_all(made, tmp_path / "programs")
    assert found == {"one": "1.0 s", "other": "fails: Broken."}


def test_the_page_is_made_of_its_results():
    rows = [versions.Trial(*row) for row in versions.json.loads(versions.RESULTS.read_text())]
    assert versions.TABLE.read_text() == versions.table(rows)


def test_programs_are_commands_that_differ():
    assert len(set(versions.PROGRAMS.values())) == len(versions.PROGRAMS)
    assert all(words.split()[0] in KNOWN for words in versions.PROGRAMS.values())
    assert os.path.isfile(versions.PLAYED)
