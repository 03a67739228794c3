"""The pages say what the parts say, and the README's commands are commands."""

import importlib.util
import re
from pathlib import Path

from forage import registry
from forage.cli import COMMANDS

ROOT = Path(__file__).parent.parent


def test_pages_are_what_the_parts_say():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path, text in module.pages().items():
        assert path.read_text() == text, f"run python docs/generate.py: {path.name} is stale"


def test_commands_in_the_readme_exist():
    text = (ROOT / "README.md").read_text()
    commands = re.findall(r"^forage (\w+)(?: (\S+) \S+:?\S*)?", text, re.MULTILINE)
    assert len(commands) > 5
    for command, agent in commands:
        assert command in COMMANDS
        if command == "train" and agent and not agent.startswith(("Cart", "-")):
            assert agent in registry.PORTS["agent"]
