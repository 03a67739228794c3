"""Help, lists and completion answer before anything slow is imported."""

import gc
import subprocess
import sys

import pytest
import small

from forage.cli.entry import COMMANDS, main

SLOW = ("jax", "scipy", "matplotlib", "gymnasium")
HELP = [["--help"], *([command, "--help"] for command in COMMANDS)]
OTHER = [["list"], ["list", "rewards"], ["--version"], ["completion", "--line", "forage show "], ["runs", "docs"]]
OTHER += [["show", "ppo"], ["show", "redq"], ["train", "ppo", "--help"], ["tune", "sac", "--help"]]
OTHER += [["show", "frame-stack"], ["train", "ppo", "CartPole-v1", "--help"], ["train", "minatar:Breakout", "--help"]]


@pytest.mark.parametrize("commands", [HELP, OTHER], ids=["help", "lists"])
def test_nothing_slow_is_imported(commands):
    code = f"""
import sys
from forage.cli.entry import run
for words in {commands!r}:
    run(words)
    print("LOADED", *words, *({{*{SLOW!r}}} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=small.PATIENCE)
    assert result.returncode == 0, result.stderr
    loaded = [line.split()[1:] for line in result.stdout.splitlines() if line.startswith("LOADED")]
    assert loaded == [" ".join(words).split() for words in commands]


TABLE = """shop,on_hand,day,order,profit,closed
a,3,2024-01-01,small,1.5,no
a,,2024-01-02,large,2.5,no
a,5,2024-01-03,small,0.5,yes
b,1,2024-01-01,large,1.0,no
b,2,2024-01-02,small,2.0,yes
"""
COMPUTING = ("jax", "equinox", "optax", "scipy", "pandas")


def test_tables_are_read_without_jax(tmp_path):
    (tmp_path / "log.csv").write_text(TABLE)
    commands = ["describe log.csv --action order", "convert log.csv log", "convert log.csv log.npz"]
    commands += ["convert log log2.npz"]
    code = f"""
import sys
from forage.cli.entry import run
for words in {commands!r}:
    run(["data", *words.split()])
    print("LOADED", *({{*{COMPUTING!r}}} & set(sys.modules)))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=small.PATIENCE, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if line.startswith("LOADED")] == ["LOADED"] * len(commands)


def test_help_loads_no_tables():
    code = "import sys; from forage.cli.entry import run; run(['--help']); print('LOADED', *sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=small.PATIENCE)
    loaded = result.stdout.partition("LOADED")[2].split()
    assert "forage.cli.entry" in loaded, result.stderr
    tables = [name for name in loaded if name.startswith(("forage.config", "forage.agents", "forage.environments"))]
    assert not tables + [name for name in ("jax", "numpy", "json", "inspect", "hashlib") if name in loaded]


def test_a_process_of_its_own_collects_garbage_seldom(monkeypatch, capsys):
    """And not that of a program which calls the command as a function."""
    set_to, at_end = [], []
    monkeypatch.setattr("gc.set_threshold", lambda *numbers: set_to.append(numbers))
    monkeypatch.setattr("atexit.register", at_end.append)
    monkeypatch.setattr(sys, "argv", ["forage", "--version"])
    for words, expected in ((["--version"], ([], [])), (None, ([(20_000,)], [gc.freeze]))):
        with pytest.raises(SystemExit):
            main(words)
        assert (set_to, at_end) == expected
    capsys.readouterr()
