"""Completion of the words of the command line, as the shells ask for it."""

import ast
import shutil
import subprocess
import sys

import pytest
import small

from forage.cli.completion import SHELLS, candidates
from forage.cli.entry import COMMANDS
from forage.config import part_options, registry
from forage.config.help import declared

# What is typed, and what must be among the candidates.
LINES = [
    ("forage ", set(COMMANDS)),
    ("forage tr", {"train"}),
    ("forage train p", {"ppo", "pqn"}),
    ("forage train ppo CartP", {"CartPole-v1", "CartPole-masked"}),
    ("forage train ppo minatar:B", {"minatar:Breakout"}),
    ("forage train ppo CartPole-v1 --l", {"--learning-rate"}),
    ("forage train dqn CartPole-v1 --st", {"--steps", "--starts"}),
    ("forage train ppo CartPole-v1 --env.pole", {"--env.pole-mass"}),
    ("forage train dqn CartPole-v1 --memory p", {"prioritised"}),
    ("forage train dqn CartPole-v1 --memory prioritised --memory.c", {"--memory.capacity"}),
    ("forage train ppo CartPole-v1 --wrap fr", {"frame-stack"}),
    ("forage train ppo CartPole-v1 --quiet --ev", {"--evaluation-episodes"}),
    ("forage train ppo CartPole-v1 --evaluation-actions ", {"auto", "greedy", "sampled"}),
    ("forage tune sac Pend", {"Pendulum-v1"}),
    ("forage tune ppo CartPole-v1 --ov", {"--over"}),
    ("forage show rn", {"rnd"}),
    ("forage list re", {"rewards"}),
    ("forage completion ", set(SHELLS)),
]


@pytest.mark.parametrize(("line", "wanted"), LINES, ids=[line for line, _ in LINES])
def test_candidates(line, wanted):
    found = candidates(line)
    word = "" if line.endswith(" ") else line.split()[-1]
    assert wanted <= set(found)
    assert all(name.startswith(word) for name in found)


@pytest.mark.thorough
def test_every_option_of_every_agent_is_completed():
    for name, target in registry.parts("agent").items():
        wanted = {f"--{field.name.replace('_', '-')}" for field in part_options.fields(registry.load(target))}
        assert wanted <= set(candidates(f"forage train {name} CartPole-v1 --"))


@pytest.mark.parametrize(
    "line", ["", "forage", "forage trane ", "forage train ppo --steps ", "forage train --x --y --"]
)
def test_what_cannot_be_completed_has_no_candidates(line):
    assert candidates(line) == {}


def test_runs_are_completed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "empty").mkdir()
    (tmp_path / "runs" / "one" / "config.json").write_text("{}")
    for command in ("resume", "evaluate", "watch", "chat", "compare", "report", "export"):
        assert set(candidates(f"forage {command} ")) == {"runs/one"}


def test_no_jax_is_loaded():
    asked = "import sys; from forage.cli.completion import candidates; candidates('forage train ppo Car'); "
    asked += "candidates('forage train ppo CartPole-v1 --l'); candidates('forage show '); print('jax' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=small.PATIENCE)
    assert result.stdout == "False\n"


def test_a_list_of_all_parts_parses_and_imports_none_of_them():
    asked = """
import ast, sys
from forage.cli.completion import candidates
from forage.config import registry
from forage.config.help import declared
ast.parse = None
found = candidates("forage show ")
targets = [target for table in registry.tables().values() for target in table.values()]
parts = {target.partition(":")[0] for target in targets if ".settings:" not in target}
for target in targets:
    assert "own_choices" in declared.source(target.partition(":")[0]) or not declared.own_choices(target)
print(len(set(found) & set(registry.parts("agent"))) > 100, len(parts) > 200, parts & set(sys.modules))
"""
    result = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=small.PATIENCE)
    assert result.stdout == "True True set()\n", result.stderr


def test_meanings_are_those_that_python_reads():
    tables = (*registry.tables().values(), registry.WRAPPERS)
    targets = {target for table in tables for target in table.values() if not declared.row_of_settings(target)}
    assert len(targets) > 200
    for target in targets:
        module, _, name = target.partition(":")
        sentence = declared.first_sentence(ast.get_docstring(declared.definition(module, name)))
        whole = declared.first_sentence(ast.get_docstring(declared.parse_module(module)) or sentence)
        assert declared.summary(target) == (sentence if sentence.endswith(".") else whole)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("'A part.'", "A part."),
        ('r"""A\\d part."""', "A\\d part."),
        ('"""A\\x20part."""', "A part."),
        ('x = """No part."""', ""),
    ],
)
def test_other_docstrings_are_parsed(body, wanted, monkeypatch):
    text = f'class Other:\n    """No part."""\n\n\nclass Part(dict):  # a note\n    {body}\n'
    monkeypatch.setattr(declared, "source", lambda module: text)
    declared.parse_module.cache_clear()
    assert declared.summary("any:Part") == wanted
    declared.parse_module.cache_clear()


@pytest.fixture
def path(tmp_path):
    """A search path with this checkout as `forage`."""
    script = tmp_path / "bin" / "forage"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m forage "$@"\n')
    script.chmod(0o755)
    return f"{script.parent}:/usr/bin:/bin"


def ran(shell, script, path):
    result = subprocess.run(
        [shell, *(["-f"] if shell == "zsh" else []), "-c", script],
        capture_output=True,
        text=True,
        timeout=small.PATIENCE,
        env=small.environment(PATH=path),
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "wanted"),
    [("forage train ppo CartPole-m", ["CartPole-masked"]), ("forage train ppo minatar:Brea", ["Breakout"])],
)
def test_bash_completes(line, wanted, path):
    """Bash divides words at a colon, so its candidates begin after it."""
    script = f"eval \"$(forage completion bash)\"; COMP_LINE='{line}'; COMP_POINT={len(line)}; _forage; "
    assert ran("bash", script + "printf '%s\\n' \"${COMPREPLY[@]}\"", path) == wanted


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes(path):
    found = ran("fish", "forage completion fish | source; complete -C 'forage train ppo minatar:Brea'", path)
    assert [line.split("\t")[0] for line in found] == ["minatar:Breakout"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_reads_its_script(path):
    """The candidates are caught before display: a terminal is needed for that."""
    script = 'eval "$(forage completion zsh)"; _describe() { print -rl ${(P)2} }; '
    script += "words=(forage train ppo minatar:Brea); CURRENT=4; _forage"
    (found,) = ran("zsh", script, path)
    assert found.startswith("minatar\\:Breakout:")
