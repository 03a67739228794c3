"""Editors and type checkers see the names that `import forage` offers."""

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import forage
from forage.config.options import ARGUMENTS

# Lines that end with `# wrong` are refused by a type checker, and no others.
SCRIPT = """
from pathlib import Path

import forage
from forage.rewards.bonuses.rnd import RND

run = forage.train("ppo", "CartPole-v1", steps="10k", seeds=2, learning_rate=1e-3, rewards=RND(weight=0.3))
run = forage.train(forage.PPO(), "CartPole-v1", steps=10_000, seeds=[3, 4], memory="last-rollout", track="csv")
score: float = run.score.value
agent: forage.Policy = forage.load(run.directory, seed=3)
other: forage.Run = forage.resume(Path("runs/a"))
page: Path = forage.report([run, "runs/a"])
lines: list[str] = forage.compare(["runs/a", run])
film, returns = forage.watch(run, episodes=2)
best: dict[str, object] = forage.tune("ppo", "CartPole-v1", ["clip=0.1,0.2"], trials=4)
found: dict[str, object] = forage.claim("name", scale="smoke")
again = forage.evaluate(run, episodes=10)


class Mine(forage.Tracker):
    def write(self, steps: int, numbers: dict[str, float]) -> None:
        print(steps, numbers)


forage.register_tracker("mine", Mine)
forage.train("ppo", "CartPole-v1", steps=[10_000])  # wrong
forage.train("ppo", "CartPole-v1", seeds="two")  # wrong
forage.train("ppo", "CartPole-v1", rewards=forage.PPO())  # wrong
forage.train("ppo", "CartPole-v1", evaluation_actions="best")  # wrong
forage.train("ppo", "CartPole-v1", display="loud")  # wrong
forage.train("ppo", "CartPole-v1", 10_000)  # wrong
forage.evaluate(run, episodes="ten")  # wrong
forage.watch(run, film=True)  # wrong
forage.trian("ppo", "CartPole-v1")  # wrong
text: int = run.score  # wrong
"""


def pyrefly(path):
    command = [sys.executable, "-m", "pyrefly", "check", "--output-format", "json", "--python-interpreter-path"]
    result = subprocess.run([*command, sys.executable, str(path)], capture_output=True, text=True)
    return [error["line"] for error in json.loads(result.stdout)["errors"]]


def mypy(path):
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--follow-imports=silent", str(path)]
    result = subprocess.run(command, capture_output=True, text=True)
    return [int(line.split(":")[1]) for line in result.stdout.splitlines() if ": error:" in line]


def pyright(path):
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(path)]
    result = subprocess.run(command, capture_output=True, text=True)
    found = json.loads(result.stdout)["generalDiagnostics"]
    return [one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"]


@pytest.mark.parametrize(
    "checker",
    [pyrefly, pytest.param(mypy, marks=pytest.mark.thorough), pytest.param(pyright, marks=pytest.mark.thorough)],
    ids=lambda checker: checker.__name__,
)
def test_a_type_checker_tells_right_calls_from_wrong_ones(checker, tmp_path):
    pytest.importorskip(checker.__name__, reason=f"{checker.__name__} is not installed")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    (tmp_path / "pyrefly.toml").touch()  # without a configuration pyrefly overlooks most
    wrong = [number for number, line in enumerate(SCRIPT.splitlines(), 1) if line.endswith("# wrong")]
    assert sorted(set(checker(path))) == wrong


def test_what_checkers_see_is_what_there_is():
    source = Path(forage.__file__).read_text()
    lines = [line.partition("  #")[0] for line in source.splitlines()]
    seen = [line.split()[-1] for line in lines if line.startswith("    from forage.")]
    assert sorted(seen) == sorted(forage.__all__)
    for name in forage.__all__:
        assert getattr(forage, name) is not None and name in dir(forage)
        module, _, known = forage._WHERE[name].partition(":")
        imported = f"    from {module} import {known or name} as {name}"
        assert imported in lines
        assert getattr(importlib.import_module(module), known or name) is getattr(forage, name)


def test_hints_know_what_train_takes():
    taken = inspect.signature(forage.train).parameters
    assert sorted(ARGUMENTS) == sorted(taken.keys() - {"options"})
