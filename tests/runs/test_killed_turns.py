"""A run with conversations of several turns, killed in a rollout, resumes as if never stopped."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest
import small

import forage
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer
from forage.runs.run import Run

small.keep_compiled()

KILLED = """
import os, signal, sys
from forage.cli import entry
from forage.environments.text.environment import TextEnvironment

answered, turns = TextEnvironment._receive, 0

def counted(self, action):
    global turns
    turns += self.split == "train"
    if turns == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return answered(self, action)

TextEnvironment._receive = counted
entry.main(sys.argv[2:])
"""
"""`forage`, in a process that kills itself while it answers turn N of training."""


IN_TOOLS = """
import os, pathlib, signal, sys, threading
from forage.cli import entry
from forage.environments.text.process import ProcessPool

asked, calls = ProcessPool.ask, 0

saved = pathlib.Path(sys.argv[-1], "checkpoints")

def counted(self, *question):
    global calls
    calls += any(saved.glob("*.npz"))
    if calls == int(sys.argv[1]):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return asked(self, *question)

ProcessPool.ask = counted
entry.main(sys.argv[2:])
"""
"""The same, killed while a tool's call N after the first checkpoint is computed in a process of its own."""

TOOL = """
import os, time

def calculator(text: str) -> str:
    '''Add two numbers.

    Args:
        text: The sum.
    '''
    with open(os.environ["PIDS"], "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(0.2)
    return str(sum(map(int, text.split("+"))))
"""


def write_model(folder: Path) -> Path:
    sizes = {"vocabulary": 512, "width": 16, "layers": 1, "heads": 2, "inner": 16, "length": 256}
    return Transformer(jax.random.key(0), Architecture(**sizes)).save(folder / "model")


def check_killed(script: str, count: int, command: list[str], folder: Path, capsys: Any, most: int) -> None:
    """Check that a killed and resumed run equals a whole one. `most`: its steps when it was killed."""
    assert small.run_command(capsys, *command, "--directory", folder / "whole")[0] == 0
    killed = folder / "killed"
    arguments = [sys.executable, "-c", script, str(count), *map(str, command), "--directory", str(killed)]
    process = subprocess.run(arguments, env=small.environment(), cwd=Path(forage.__file__).parents[1], timeout=1200)
    assert process.returncode == -signal.SIGKILL
    saved = [int(path.stem) for path in (killed / "checkpoints").glob("*.npz")]
    assert saved and max(saved) <= most
    assert small.run_command(capsys, "resume", killed, "--quiet")[0] == 0

    last = sorted((folder / "whole" / "checkpoints").glob("*.npz"))[-1].name
    assert small.differing_files(killed / "checkpoints" / last, folder / "whole" / "checkpoints" / last) == []
    assert small.differing_files(killed / "agent.npz", folder / "whole" / "agent.npz") == []
    assert [row["steps"] for row in Run(killed).rows] == [row["steps"] for row in Run(folder / "whole").rows]


@pytest.mark.thorough
def test_killed_between_two_turns_of_a_rollout(tmp_path, capsys):
    options: dict[str, Any] = {"model": write_model(tmp_path), "num_envs": 8, "group_size": 4, "minibatches": 2}
    command = ["train", "grpo", "text:guess", *small.words(options), "--steps", "192", "--seeds", "1"]
    command += ["--checkpoint-seconds", "0", "--evaluation-episodes", "2", "--quiet"]
    # A rollout is 4 turns: the 15th is the third turn of the fourth rollout, and three of 32 steps were over
    check_killed(KILLED, 15, command, tmp_path, capsys, 96)


@pytest.mark.thorough
def test_killed_while_tools_compute(tmp_path, capsys, monkeypatch):
    (tmp_path / "mine.py").write_text(TOOL)
    monkeypatch.setenv("PIDS", str(tmp_path / "pids"))
    options: dict[str, Any] = {"model": write_model(tmp_path), "num_envs": 4, "group_size": 2, "advantage": "none"}
    command = ["train", "grpo", "text:addition", *small.words(options), "--steps", "64", "--seeds", "1"]
    command += ["--env.tools", f"{tmp_path / 'mine.py'}:calculator", "--env.turns", "2", "--behaviour", "expert-text"]
    command += ["--env.context", "96", "--env.response", "32"]
    command += ["--checkpoint-seconds", "0", "--evaluation-episodes", "2", "--quiet"]
    check_killed(IN_TOOLS, 6, command, tmp_path, capsys, 56)
    begun = {int(line) for line in (tmp_path / "pids").read_text().split()}
    assert len(begun) >= 3
    assert not [pid for pid in begun if Path(f"/proc/{pid}").exists() and pid_runs_tool(pid)]


def pid_runs_tool(pid: int) -> bool:
    """Return whether a process of this number is one of a tool."""
    return b"forage.environments.text.apart" in Path(f"/proc/{pid}/cmdline").read_bytes()
