"""Help, lists and completion answer before anything slow is imported."""

import subprocess
import sys

import pytest
import small

from forage.cli.entry import COMMANDS

SLOW = ("jax", "scipy", "matplotlib", "gymnasium")
HELP = [["--help"], *([command, "--help"] for command in COMMANDS)]
OTHER = [["list"], ["list", "rewards"], ["--version"], ["completion", "--line", "forage show "]]


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


def test_help_loads_no_tables():
    code = "import sys; from forage.cli.entry import run; run(['--help']); print('LOADED', *sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=small.PATIENCE)
    loaded = result.stdout.partition("LOADED")[2].split()
    assert "forage.cli.entry" in loaded, result.stderr
    tables = [name for name in loaded if name.startswith(("forage.config", "forage.agents", "forage.environments"))]
    assert not tables + [name for name in ("jax", "numpy", "json", "inspect", "hashlib") if name in loaded]
