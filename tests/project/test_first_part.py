"""The page on writing a first part: its file, line, test and claim, exactly as printed there."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import small

from forage.config import registry
from forage.config.resolve import resolve
from forage.studies.claims.building import build_claim
from forage.studies.claims.rows import Row, parse_rows

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "first_part.md").read_text()
PART, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CLAIM = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[-1]


def module_of(name, source, path, monkeypatch):
    """Import a block of the page as the module that the page calls it."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def effort(tmp_path, monkeypatch):
    """The part, in the wing and in its table."""
    module = module_of("forage.rewards.effort", PART, tmp_path / "effort.py", monkeypatch)
    name, target = re.search(r'"(\w+)": "(\w+:\w+)",', PAGE).groups()
    monkeypatch.setitem(registry.PORTS["rewards"], name, f"forage.rewards.{target}")
    monkeypatch.chdir(tmp_path)
    return module


@pytest.mark.parametrize("command", re.findall(r"^forage (?:show|train) .+", PAGE, re.MULTILINE))
def test_commands(effort, command, capsys):
    quick = ["--evaluation-episodes", "2", "--directory", "run", "--quiet"] if " train " in command else []
    code, out, error = small.run_command(capsys, *command.split()[1:], *quick)
    assert code == 0, error
    assert " train " in command or "(0 or more)" in " ".join(out.split())


def test_its_test(effort, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "rewards")
    module = module_of("page_test", TEST, tmp_path / "page_test.py", monkeypatch)
    module.test_strong_actions_cost()
    module.test_choices_have_no_strength()


def test_its_claim(effort):
    claim = build_claim(Row("effort", Path("policy_gradient.toml"), "forage", parse_rows(CLAIM)["effort"]))
    assert {claim.treatment, *claim.baselines} == set(claim.arms)
    for arm in claim.arms.values():
        resolve(arm.agent, claim.environment, steps=claim.laptop.steps, seeds=1, **arm.parts())
