"""Installed policies: their names, their copies, and the files of the package of ten."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import forage
from forage.config import packages, registry
from forage.config.trusting import addresses_in, code_in
from forage.core.errors import ForageError
from forage.runs.run import Run

ZOO = Path(__file__).parents[2] / "zoo"
POLICIES = sorted((ZOO / "forage_zoo" / "policies").iterdir())


@pytest.fixture
def zoo_folder(monkeypatch, tmp_path):
    """Change to an empty folder, with the package of this repository as the installed one."""
    folders = {"zoo": ZOO / "forage_zoo" / "policies"}
    monkeypatch.setattr(packages, "policies_of", folders.get)
    monkeypatch.chdir(tmp_path)


def test_a_policy_is_copied_once(zoo_folder, capsys):
    assert packages.locate_run("zoo:ppo-cartpole") == Path("runs/zoo/ppo-cartpole")
    assert capsys.readouterr().err == "zoo:ppo-cartpole is copied to runs/zoo/ppo-cartpole.\n"
    own = Path("runs/zoo/ppo-cartpole/evaluation.json")
    own.write_text("{}")
    assert packages.locate_run("zoo:ppo-cartpole") == own.parent and own.read_text() == "{}"
    assert capsys.readouterr().err == "" and sorted(Path("runs/zoo").iterdir()) == [own.parent]
    assert Run("zoo:ppo-tmaze").title == "ppo on memory:TMaze-10"


def test_other_names_are_paths(zoo_folder):
    for name in ("runs/a", "file.py:Class", "C:\\runs", "other:name", "zoo/ppo"):
        assert packages.locate_run(name) == Path(name)
    Path("zoo:mine").mkdir()
    assert packages.locate_run("zoo:mine") == Path("zoo:mine")


def test_what_is_not_there_is_a_sentence(zoo_folder, monkeypatch):
    with pytest.raises(ForageError, match=r"zoo has no policy 'ppo-cartpol'\. Did you mean 'ppo-cartpole'"):
        Run("zoo:ppo-cartpol")
    with pytest.raises(ForageError, match=r"zoo has no policy ''\. Available: dqn-acrobot, "):
        Run("zoo:")
    monkeypatch.setattr(packages, "policies_of", lambda package: None)
    with pytest.raises(ForageError, match=r"^zoo:a is a policy of .* not installed: pip install forage-zoo\.$"):
        forage.load("zoo:a")
    assert not Path("runs").exists()


def test_the_package_is_what_its_page_says():
    page = (ZOO / "README.md").read_text()
    rows = dict(re.findall(r"^\| `zoo:(\S+)` \| (.*) \|$", page, re.MULTILINE))
    assert sorted(rows) == [policy.name for policy in POLICIES] and len(rows) >= 8
    assert sum(file.stat().st_size for policy in POLICIES for file in policy.iterdir()) < 2_000_000
    for policy in POLICIES:
        config, score = (json.loads((policy / name).read_text()) for name in ("config.json", "evaluation.json"))
        environment, episodes, value, by_chance = (cell.strip() for cell in rows[policy.name].split("|")[:4])
        assert environment == config["environment"]["id"] and int(episodes) == score["episodes"] == 100
        assert float(value) == pytest.approx(score["return"][0], abs=0.005) and score["return"][0] > float(by_chance)
        assert f"--directory {policy.name}" in page
        assert not code_in(config) and not addresses_in(config)


@pytest.mark.thorough
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_policy_acts(policy, zoo_folder):
    if not registry.target_of("agent", json.loads((policy / "config.json").read_text())["agent"]["part"]):
        pytest.skip("its agent is of another package")
    found = forage.load(f"zoo:{policy.name}")
    found.act(found._like if isinstance(found._like, dict) else np.asarray(found._like))
