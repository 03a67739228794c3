"""A run with conversations of several turns, killed between two turns of a rollout, resumes as if never stopped."""

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


@pytest.mark.thorough
def test_killed_between_two_turns_of_a_rollout(tmp_path, capsys):
    network = Transformer(
        jax.random.key(0), Architecture(vocabulary=512, width=16, layers=1, heads=2, inner=16, length=256)
    )
    network.save(tmp_path / "model")
    options: dict[str, Any] = {"model": tmp_path / "model", "num_envs": 8, "group_size": 4, "minibatches": 2}
    command = ["train", "grpo", "text:guess", *small.words(options), "--steps", "192", "--seeds", "1"]
    command += ["--checkpoint-seconds", "0", "--evaluation-episodes", "2", "--quiet"]
    assert small.run_command(capsys, *command, "--directory", tmp_path / "whole")[0] == 0

    killed = tmp_path / "killed"  # a rollout is 4 turns: the 15th is the third turn of the fourth rollout
    arguments = [sys.executable, "-c", KILLED, "15", *map(str, command), "--directory", str(killed)]
    process = subprocess.run(arguments, env=small.environment(), cwd=Path(forage.__file__).parents[1], timeout=1200)
    assert process.returncode == -signal.SIGKILL
    saved = [int(path.stem) for path in (killed / "checkpoints").glob("*.npz")]
    assert saved and max(saved) <= 96  # three rollouts of 32 steps were over
    assert small.run_command(capsys, "resume", killed, "--quiet")[0] == 0

    last = sorted((tmp_path / "whole" / "checkpoints").glob("*.npz"))[-1].name
    assert small.differing_files(killed / "checkpoints" / last, tmp_path / "whole" / "checkpoints" / last) == []
    assert small.differing_files(killed / "agent.npz", tmp_path / "whole" / "agent.npz") == []
    assert [row["steps"] for row in Run(killed).rows] == [row["steps"] for row in Run(tmp_path / "whole").rows]
