"""The tutorial and the how-to pages: their code and their commands run, in the order of the page."""

import contextlib
import importlib.util
import json
import re
import shlex
import shutil
import string
import subprocess
from pathlib import Path

import pytest
import small

from forage.cli.entry import COMMANDS
from forage.config import part_options, registry
from forage.config.options import ARGUMENTS

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = importlib.util.spec_from_file_location("notebooks", DOCS / "make" / "notebooks.py")
assert PROGRAM is not None and PROGRAM.loader is not None
notebooks = importlib.util.module_from_spec(PROGRAM)
PROGRAM.loader.exec_module(notebooks)
FILES = {"environment": "valley.py", "bonus": "far.py", "agent": "mellow.py"}  # of one's own, as the commands name them
FILES |= {"change-a-loss": "my_loss.py", "change-a-critic": "my_critic.py", "multi-agent": "meet.py"}
PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]
APART = {"publish-a-part"}  # its files are a package: test_publish_page.py
GATE = {"bonus", "notebooks"}
SMALLER = ((r"--steps \S+", "--steps 1k"), (r"--seeds \S+", "--seeds 2"), (r"--episodes \S+", "--episodes 2"))


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return a page's commands and code, one after the other: the language, and the text."""
    return re.findall(r"```(sh|python)\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page.stem in GATE else pytest.mark.thorough, id=page.stem)
        for page in PAGES
        if page.stem not in APART
    ],
)
def test_what_a_page_says_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written = "file" if page.stem in FILES else "python"
    run_blocks([(written if kind == "python" else kind, text) for kind, text in blocks(page)], page, capsys)


@pytest.mark.parametrize("notebook", sorted(notebooks.NOTEBOOKS))
@pytest.mark.thorough
def test_the_cells_of_a_notebook_run(notebook, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = notebooks.FOLDER / f"{notebook}.ipynb"
    cells = ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells[0].startswith("%pip install")
    page = DOCS / notebooks.NOTEBOOKS[notebook].page
    run_blocks([split_cell(cell) for cell in cells[1:]], page, capsys)


def split_cell(cell: str) -> tuple[str, str]:
    """Return the kind of a cell of code, and its commands, code or file."""
    first, _, rest = cell.partition("\n")
    if first.startswith(("%%writefile", "%%bash")):
        return ("file" if first.startswith("%%writefile") else "sh"), rest
    if first.startswith("!"):
        assert all(line.startswith("!") and "{" not in line for line in cell.splitlines())
        return "sh", cell.replace("!", "")
    assert not re.search(r"^[%!]", cell, re.MULTILINE)
    return "python", cell


@pytest.mark.parametrize("notebook", sorted(notebooks.NOTEBOOKS))
def test_notebooks_are_those_of_their_pages(notebook):
    made = notebooks.make_notebook(notebook, notebooks.NOTEBOOKS[notebook])
    assert (notebooks.FOLDER / f"{notebook}.ipynb").read_text() == made, "run python docs/make/notebooks.py"


def run_blocks(found: list[tuple[str, str]], page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run code and commands, write files, and end the servers that they start."""
    with contextlib.ExitStack() as opened:
        follow_blocks(found, page, {"__name__": "__main__"}, capsys, opened)  # one block goes on from another


def follow_blocks(
    found: list[tuple[str, str]],
    page: Path,
    names: dict[str, object],
    capsys: pytest.CaptureFixture[str],
    opened: contextlib.ExitStack,
) -> None:
    """Run code and commands of a page or notebook, one after the other; `opened` ends the servers."""
    for language, text in found:
        if language == "file":
            Path(FILES[page.stem]).write_text(text)
        elif language == "python":
            exec(compile(text, str(page), "exec"), names)
        else:
            for command in text.splitlines():
                if command.startswith("forage serve"):
                    process = small.start(*command.split()[1:], cwd=Path.cwd())
                    opened.callback(process.kill)
                    assert "Serves" in process.stdout.readline()
                elif command.startswith("curl"):
                    said = subprocess.run(shlex.split(command), capture_output=True, timeout=20, check=True).stdout
                    assert "error" not in json.loads(said)
                else:
                    follow(command, capsys)


def follow(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command of a page, unchanged apart from its size."""
    for pattern, less in SMALLER:
        command = re.sub(pattern, less, command)
    verb, *words = command.split()[1:]
    if verb == "train":
        from_data = words[1:2] == ["--data"]  # alone, so that there is no evaluation
        small_networks = [] if from_data and words[2].endswith(".jsonl") else ["--hidden-sizes", "16,16"]
        seeds = [] if "--seeds" in words else ["--seeds", "1"]
        words += [*seeds, *small_networks] if from_data else ["--evaluation-episodes", "2"]
        words += ["--quiet"]
    code, _, said = small.run_command(capsys, verb, *words)
    assert code == 0, f"{command}: {said}"


@pytest.mark.thorough
def test_a_shared_policy_needs_no_checkpoints(tmp_path, capsys):
    run = tmp_path / "run"
    words = ["--steps", "1k", "--seeds", "1", "--evaluation-episodes", "1", "--quiet", "--directory", run]
    assert small.run_command(capsys, "train", "ppo", "CartPole-v1", *words)[0] == 0
    shutil.rmtree(run / "checkpoints")
    import forage

    assert forage.load(run).act([0.0, 0.1, 0.05, 0.0]) in (0, 1)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_pages_exist(page):
    for verb, agent in re.findall(r"(?:^|`)forage (\w+)(?: (\S+))?", page.read_text(), re.MULTILINE):
        assert verb in COMMANDS
        if page.stem in APART or agent.startswith(("...", *string.ascii_uppercase)) or ".py:" in agent:
            continue
        if verb == "train" and agent and agent != "--from":
            assert agent.strip("`.") in registry.parts("agent"), f"{page.name}: {agent}"


ALGORITHMS = ("ppo", "dqn", "sac", "td3")


@pytest.mark.parametrize("page", ["from-stable-baselines3", "from-cleanrl"])
def test_options_of_the_tables_exist(page):
    """The right column of each table names options, parts and wrappers that are there."""
    known = {field.name for name in ALGORITHMS for field in part_options.fields(registry.part_class("agent", name))}
    parts = {name for table in registry.tables().values() for name in table}
    said = {*ARGUMENTS, *registry.PORTS, "episodes"}
    rows = [line.split(" | ")[-1] for line in (DOCS / "how-to" / f"{page}.md").read_text().splitlines() if "|" in line]
    checked = 0
    for code in re.findall(r"`([^`]+)`", "\n".join(rows)):
        for option in re.findall(r"--([\w.-]+)", code):
            name = option.replace("-", "_")
            if "." in option:
                port, _, field = name.partition(".")
                assert port == "env" or any(
                    field in {one.name for one in part_options.fields(registry.part_class(port, part))}
                    for part in registry.parts(port)
                ), f"{page}: --{option}"
            else:
                assert name in known | said | {"extras", "gru_size"}, f"{page}: --{option}"
            checked += 1
        for port, part in re.findall(r"--(\w+) ([a-z][\w-]+)", code):
            if port in registry.PORTS:
                assert part in parts, f"{page}: {part}"
        if found := re.fullmatch(r"(\w+)=[^ ]+|([a-z_]+)", code):
            name = found[1] or found[2]
            assert name in known | said | parts | COMMAND_WORDS, f"{page}: {name}"
            checked += 1
    assert checked > 15


COMMAND_WORDS = {"explore", "action_mask", "num_envs"}
