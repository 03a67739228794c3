"""The page on packages of parts: its files in a folder of packages, its commands, and where the parts then stand."""

import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
import small
import strangers
from test_pages import follow

import forage
from forage.cli import completion
from forage.core.types import ForageError

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "how-to" / "publish-a-part.md").read_text()
FILES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
PROJECT = tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])["project"]
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.fixture
def effort(tmp_path, monkeypatch):
    """The package of the page, installed."""
    monkeypatch.chdir(tmp_path)
    for site in strangers.site_at(tmp_path / "site"):
        (module,) = PROJECT["entry-points"]["forage.parts"].values()
        strangers.install(site, PROJECT["name"], FILES, module)
        yield site


def test_the_parts_stand_beside_forages(effort, capsys):
    _, out, _ = small.run_command(capsys, "list")
    assert "forage-effort agent: calm-ppo; rewards: effort" in " ".join(out.split())
    _, out, _ = small.run_command(capsys, "list", "rewards")
    assert "less a price for strong actions: r - price |a|^2. (forage-effort)" in " ".join(out.split())
    _, out, _ = small.run_command(capsys, "show", "effort")
    said = " ".join(out.split())  # as wide as any terminal
    assert "larger makes weaker actions" in said and "(0 or more)" in said
    assert "source forage_effort.effort Effort (forage-effort)\npage https://effort.example/parts/effort\n" in out
    _, out, _ = small.run_command(capsys, "show", "calm-ppo")
    assert "preset Pendulum-v1: discount 0.95; 200,000 steps (tuned by hand)" in " ".join(out.split())
    found = completion.candidates("forage train calm")
    assert found["calm-ppo"].endswith("a small clip and few epochs. (forage-effort)")
    assert "--rewards.price" in completion.candidates("forage train calm-ppo Pendulum-v1 --rewards effort --rewards.")
    assert "--clip" in completion.candidates("forage train calm-ppo --cl")
    code, _, error = small.run_command(
        capsys, "train", "calm-ppo", "Pendulum-v1", "--rewards", "effort", "--rewards.price", -1
    )
    assert code == 2 and error == "price of effort is 0 or more, not -1.\n"
    _, _, error = small.run_command(capsys, "train", "calm-pp", "Pendulum-v1")
    assert "Did you mean 'calm-ppo'" in error


def test_the_parts_have_pages(effort):
    spec = importlib.util.spec_from_file_location("parts_pages", DOCS / "make" / "parts.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    page = maker.page("rewards", "effort", "forage_effort.effort:Effort")
    assert "`forage_effort.effort:Effort` (forage-effort)" in page
    assert "| `--rewards.price` | `0.1` | 0 or more | reward lost for each unit of squared action" in page


@pytest.mark.thorough
def test_what_the_page_says_runs(effort, capsys, monkeypatch):
    for command in COMMANDS:
        follow(command.replace("6k", "2k"), capsys)
    run = Path("runs/calm")
    config = json.loads((run / "config.json").read_text())
    assert config["agent"]["from"] == config["rewards"]["from"] == "forage-effort" and "from" not in config["memory"]
    assert list(json.loads((run / "versions.json").read_text())["own"]) == ["forage-effort"]
    assert forage.load(run).act([1.0, 0.0, 0.0]) is not None
    # Other code of the package
    path = effort / "forage_effort" / "calm.py"
    path.write_text(path.read_text() + "\n# later\n")
    code, _, error = small.run_command(capsys, "evaluate", run, "--episodes", 1)
    assert code == 0 and "was trained with another forage-effort than the one here" in error
    # No package
    monkeypatch.setattr("sys.path", [one for one in sys.path if one != str(effort)])
    strangers.forget()
    with pytest.raises(ForageError, match=r"^The part 'calm-ppo' is of the package forage-effort, which is not inst"):
        forage.load(run)
    for words in (["evaluate", run], ["resume", run], ["report", run]):
        code, _, error = small.run_command(capsys, *words)
        assert (
            code == 0 if words[0] == "report" else (code == 2 and "forage-effort" in error and error.count("\n") == 1)
        )
