"""The page on writing your own parts: its code in a file, its commands run, and the run loaded again."""

import json
import re
from pathlib import Path

import pytest
import small
from tiers import first

import forage

PAGE = (Path(__file__).parents[2] / "docs" / "write-your-own.md").read_text()
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_parts.py").write_text("\n\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)))
    return tmp_path


@pytest.mark.parametrize("command", first(1, COMMANDS), ids=lambda command: re.findall(r"py:(\w+)", command)[0])
def test_what_the_page_says_runs(own, command, monkeypatch, capsys):
    quick = ["--evaluation-episodes", "2", "--directory", "run", "--quiet"]
    code, _, said = small.run_command(capsys, *command.split()[1:], *quick)
    assert code == 0, said
    found = json.loads((own / "run" / "evaluation.json").read_text())
    assert found["episodes"] == 2
    monkeypatch.chdir("/")  # a run finds a file again from anywhere
    assert forage.evaluate(own / "run", episodes=1) is not None


def test_what_is_no_part_is_said(own, capsys):
    for words, said in (
        (["ppo", "Pendulum-v1", "--rewards", "my_parts.py:Nothing"], "my_parts.py has no class Nothing; it has "),
        (["ppo", "Pendulum-v1", "--memory", "my_parts.py:Effort"], "is not of the port memory"),
        (["my_parts.py:LinearQ", "Pendulum-v1"], "CartPole-v1 works"),
    ):
        code, _, error = small.run_command(capsys, "train", *words, "--steps", "100", "--seeds", "1")
        assert code == 2 and said in error
