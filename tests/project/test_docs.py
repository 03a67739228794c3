"""The pages agree with the parts, and the README's commands are commands."""

import re
from pathlib import Path

import pytest

from forage.cli.arguments import FLAGS, LISTS
from forage.cli.entry import COMMANDS
from forage.config import options, registry
from forage.config.environment import wrap_environment
from forage.core.fields import value_of
from forage.environments import make
from forage.environments.catalogue import NATIVE
from forage.environments.wrappers import motion
from forage.studies.robustness import axis

ROOT = Path(__file__).parents[2]
AROUND = ROOT / "docs" / "environments" / "around.md"


def words_of(command):
    """Return a command's environment, and the wrappers it puts around it."""
    positional, words = options.split(command.split()[2:], FLAGS, LISTS)
    return positional[-1], options.many(words, "wrap"), options.many(words, "under")


def test_wrappers_of_the_pages_fit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    motion.record_clip(make("Pendulum-v1"), lambda seen: seen[:1], "swing.npz", 20)
    commands = [registry.wrapper_class(name).example for name in registry.WRAPPERS]
    commands += re.findall(r"^forage train .+", AROUND.read_text(), re.MULTILINE)
    assert len(commands) > len(registry.WRAPPERS) + 3
    for command in commands:
        environment, around, _ = words_of(command)
        if environment in NATIVE:
            wrap_environment(make(environment), around)


def test_commands_of_robustness_fit():
    commands = re.findall(r"^forage evaluate .+", AROUND.read_text(), re.MULTILINE)
    assert len(commands) > 3
    for command in commands:
        _, around, under = words_of(command)
        environment = wrap_environment(make("CartPole-v1"), [*around, *under])
        _, words = options.split(command.split()[2:], FLAGS, LISTS)
        for name, _ in map(axis, options.many(words, "grid")):
            value_of(environment, name)


def test_commands_in_the_readme_exist():
    text = (ROOT / "README.md").read_text()
    commands = re.findall(r"^forage (\w+)(?: (\S+) \S+:?\S*)?", text, re.MULTILINE)
    assert len(commands) > 5
    for command, agent in commands:
        assert command in COMMANDS
        if command == "train" and agent and not agent.startswith(("Cart", "-")):
            assert agent in registry.parts("agent")


def test_rows_in_the_readme_are_those_of_the_page_of_measurements():
    measured = (ROOT / "docs" / "measured.md").read_text()
    rows = re.findall(r"^(\| \S.* \|) [\d,]+ (\|.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(rows) == 6
    for names, found in rows:
        assert any(line.startswith(names) and found in line for line in measured.splitlines()), names


@pytest.mark.parametrize("name", [name for table in (*registry.tables().values(), registry.WRAPPERS) for name in table])
def test_every_part_has_an_example_of_its_own(name):
    port = next((port for port, table in registry.tables().items() if name in table), None)
    cls = registry.wrapper_class(name) if port is None else registry.part_class(port, name)
    assert "example" in vars(cls) and (cls.example.startswith("see ") or name in cls.example)
