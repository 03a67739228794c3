"""The command line, from typed words to printed output."""

import inspect
import json
import re
import shutil
import sys

import pytest
import small
from tiers import gate_cases

from forage.cli import arguments
from forage.cli import entry as cli
from forage.cli.arguments import environment_options, named_options
from forage.cli.list import MOST, part_counts
from forage.config import options, packages, part_options, registry
from forage.config.help import declared
from forage.core.types import ForageError
from forage.runs.run import Run

small.keep_compiled()
TINY = [*small.words(small.PPO), "--seeds", "2", "--steps", "64", "--evaluation-episodes", "2"]


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A run made by the command line, and its printed JSON."""
    directory = tmp_path_factory.mktemp("runs") / "finished"
    result = small.forage("train", "ppo", "CartPole-v1", *TINY, "--directory", directory, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    return directory, result.stdout


def test_json_is_nothing_but_json_and_ends_with_the_result(whole_run):
    directory, out = whole_run
    # On a slow machine a note says that the evaluation takes its time.
    events = [event for event in map(json.loads, out.splitlines()) if event["event"] != "note"]
    assert [event["event"] for event in events] == ["row"] * 4 + ["result"]
    assert [event["steps"] for event in events[:-1]] == [16, 32, 48, 64]
    assert [{"event": "row"} | row for row in Run(directory).rows] == events[:-1]
    result = events[-1]
    assert result["directory"] == str(directory)
    assert (result["agent"], result["environment"], result["steps"], result["seeds"]) == ("ppo", "CartPole-v1", 64, 2)
    assert result["interval"][0] <= result["score"] <= result["interval"][1]


def test_words_become_settings(whole_run):
    config = Run(whole_run[0]).config
    assert config["seeds"] == [0, 1]
    assert config["steps"] == 64
    assert config["agent"]["hidden_sizes"] == [8]
    assert config["agent"]["num_envs"] == 2


@pytest.mark.thorough
def test_quiet_prints_nothing(capsys, tmp_path):
    code, out, err = small.run_command(
        capsys, "train", "ppo", "CartPole-v1", *TINY, "--directory", tmp_path / "run", "--quiet"
    )
    assert (code, out, err) == (0, "", "")
    assert Run(tmp_path / "run").evaluation


@pytest.mark.thorough
def test_plain_lines_and_parts_by_name(capsys, tmp_path):
    """Not on a terminal: lines, without control characters. With an agent chosen and parts named by words."""
    words = ["--seeds", "5,9", "--rewards", "scale", "--rewards.factor", "0.1", "--env.length", "1"]
    words += ["--sweep", "learning-rate=1e-3,1e-4", "--clip-value", "true", "--starts=levels", "--starts.number=9"]
    words += [
        *small.words(small.PPO),
        "--steps",
        "0.032k",
        "--evaluation-episodes",
        "2",
        "--directory",
        tmp_path / "run",
    ]
    code, out, err = small.run_command(capsys, "train", "CartPole-v1", *words)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0] == "ppo on CartPole-v1, 4 seeds"
    assert "ppo because Discrete(2) actions" in out
    assert [line.split()[-1] for line in lines if " steps  " in line] == ["compiled", "steps/s"]
    assert "learning_rate=0.001: return" in out
    assert f"watch it: forage watch {tmp_path / 'run'}" in out
    config = Run(tmp_path / "run").config
    assert config["seeds"] == [5, 9]
    assert config["sweep"] == {"learning_rate": [1e-3, 1e-4]}
    assert config["agent"]["clip_value"] is True
    assert config["rewards"]["factor"] == 0.1
    assert config["starts"]["capacity"] == 9
    assert config["environment"] == {"id": "CartPole-v1", "options": {"length": 1}}


def test_resume_evaluate_watch_compare(capsys, whole_run, tmp_path):
    copies = [tmp_path / name for name in ("one", "two")]
    for directory in copies:
        shutil.copytree(whole_run[0], directory)
    code, out, err = small.run_command(capsys, "resume", copies[0], "--json")
    assert (code, err) == (0, "")
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["note", "result"]
    assert "This run had finished all of its 64 steps; nothing is left to do." in out

    code, out, err = small.run_command(capsys, "evaluate", copies[0], "--episodes", "3", "--seed", "1", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out).keys() >= {"score", "low", "high", "seeds", "cut", "reward"}
    code, out, _ = small.run_command(capsys, "evaluate", copies[0], "--episodes", "3")
    assert out.startswith("ppo on CartPole-v1: return")

    code, out, err = small.run_command(
        capsys, "watch", copies[0], "--output", tmp_path / "a.gif", "--steps", "5", "--seed", "1"
    )
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / 'a.gif'}  (returns ")
    assert (tmp_path / "a.gif").read_bytes()[:3] == b"GIF"

    code, out, err = small.run_command(capsys, "compare", *copies, "--output", tmp_path / "both.png")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == str(tmp_path / "both.png")
    assert (tmp_path / "both.png").exists()


PARTS = [(port, name) for port, table in registry.tables().items() for name in table]


@pytest.mark.parametrize(("port", "name"), gate_cases(PARTS, PARTS[::5]))
def test_every_part_can_be_shown(capsys, port, name):
    code, out, err = small.run_command(capsys, "show", name)
    assert (code, err) == (0, "")
    assert out.startswith(f"{name}: {port}\n")
    fields = part_options.fields(registry.part_class(port, name))
    for field in fields:
        assert f"--{'' if port == 'agent' else port + '.'}{field.name.replace('_', '-')} " in out


@pytest.mark.parametrize("name", ["CartPole-v1", "minatar:Breakout", "gymnasium:CartPole-v1", "DeepSea-5"])
def test_an_environment_can_be_shown(capsys, name):
    code, out, err = small.run_command(capsys, "show", name)
    assert (code, err) == (0, "")
    assert f"{name}: environment" in out
    assert "observation " in out
    assert "action " in out


def test_text_is_shown_with_an_episode_and_its_options(capsys):
    code, out, err = small.run_command(capsys, "show", "text:addition")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    prompt, answer, reward = (
        next(x for x in lines if x.startswith(f"  {who} ")) for who in ("prompt", "answer", "reward")
    )
    assert "+" in prompt and "<answer>" in answer and reward.split() == ["reward", "1,", "right"]
    assert any(line.split()[:2] == ["--env.level", "0"] and "Which level" in line for line in lines)


@pytest.mark.parametrize("name", registry.WRAPPERS)
def test_every_wrapper_can_be_shown(capsys, name):
    code, out, err = small.run_command(capsys, "show", name)
    assert (code, err) == (0, "")
    assert out.startswith(f"{name}: wrapper\n")
    fields = registry.wrapper_fields(registry.wrapper_class(name))
    assert all(field.help and f"\n  {field.name.replace('_', '-')} " in out for field in fields)
    assert ":".join([f"--wrap {name}", *(field.name.replace("_", "-").upper() for field in fields)]) in out


def test_names_are_listed_on_one_screen(capsys):
    code, out, err = small.run_command(capsys, "list")
    assert (code, err) == (0, "") and len(out.splitlines()) <= 40
    shown = out.replace(",", " ").split()
    for table in (*registry.PORTS.values(), registry.WRAPPERS, ["CartPole-v1", "minatar:Asterix"]):
        assert set(list(table)[:MOST]) <= set(shown)
    assert f"and {len(registry.PORTS['agent']) - MOST} more" in " ".join(out.split())
    for package in packages.load_packages():
        assert f"{package.name} {part_counts(package)}" in " ".join(out.split())


def test_every_part_is_listed(capsys):
    code, out, err = small.run_command(capsys, "list", "--all")
    assert (code, err) == (0, "")
    assert all(len(line) <= 120 for line in out.splitlines())
    for port, table in {**registry.tables(), "wrappers": registry.WRAPPERS}.items():
        assert f"\n{port}\n" in f"\n{out}"
        for name, target in table.items():
            sentence = declared.summary(target)
            assert len(sentence) > 10 and sentence.endswith("."), f"{name} has no whole sentence about itself"
            mark = "* " if declared.own_choices(target) else ""
            assert " ".join(f"  {name} {mark}{sentence}".split()) in " ".join(out.split())
    assert "gmpo * " in out and "\n* has numbers or rules that are Forage's and not its paper's" in out
    assert "  CartPole-v1 " in out


@pytest.mark.parametrize("kind", [*registry.PORTS, "agents", "wrappers", "environments"])
def test_one_kind_is_listed(capsys, kind):
    code, out, err = small.run_command(capsys, "list", kind)
    assert (code, err) == (0, "")
    assert out.startswith("agent" if kind == "agents" else kind)


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help(capsys, words):
    code, out, err = small.run_command(capsys, *words)
    assert (code, err) == (0, "")
    for command in cli.COMMANDS:
        assert f"forage {command} " in out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_its_own_help_with_examples(capsys, command):
    code, out, err = small.run_command(capsys, command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"forage {command} ")
    examples = out.partition("\nExamples\n")[2].splitlines()
    assert examples and all(f"forage {command}" in line for line in examples)
    known = named_options(out)
    for line in examples:
        words = line.split("#")[0].split()
        given = [word[2:].partition("=")[0] for word in words if word.startswith("--")]
        free = command in ("train", "tune", "watch", "plan", "study")
        assert all(n in known or "." in n or free for n in given), line


def test_options_that_help_lists_are_taken_by_the_command():
    """Each command's code reads every option of its help by name, so that neither is forgotten."""
    for command in cli.COMMANDS:
        module = cli.command_module(command)
        code = inspect.getsource(module).replace(module.HELP, "") + inspect.getsource(arguments.display)
        code += inspect.getsource(cli.run) if command in cli.READERS else ""
        for name in named_options(module.HELP):
            taken = name in options.PORTS or re.search(rf"[\"']{name.replace('-', '[-_]')}[\"']", code)
            taken = taken or (command == "train" and name.replace("-", "_") in options.WORDS)
            taken = taken or ("READING_NAMES" in code and name.replace("-", "_") in options.READING_NAMES)
            assert taken, f"forage {command} --help lists --{name}, which it does not take"


def test_words_become_the_arguments_of_forage_train():
    """Each option of the table is taken by the command line, or read before; with a value of its type."""
    texts = {"seeds": "3,", "sweep": "clip=0.1,0.2", "track": "csv,wandb", "evaluation_every": "1k", "workers": "ray:2"}
    found = {"seeds": (3,), "sweep": {"clip": (0.1, 0.2)}, "track": ("csv", "wandb"), "evaluation_every": 1000}
    found |= {"workers": "ray:2", "wrap": ["frame-stack:4"], "async_envs": True}
    options_of_words = [one for one in options.OPTIONS if one.in_words and one.name not in options.PORTS]
    words = {one.word or one.name: True if one.flag else texts.get(one.name, "7") for one in options_of_words}
    words["wrap"] = ["frame-stack:4"]
    taken = arguments.take_options(words)
    assert not words and set(taken) == {one.name for one in options_of_words} | {"display", "environment_options"}
    assert {name: taken[name] for name in found} == found and taken["stop_at"] == 7.0
    assert arguments.take_options({"visits": "false"})["visits"] is False  # --no-visits


def test_help_of_an_agent_its_environment_and_the_ports(capsys):
    code, out, err = small.run_command(capsys, "train", "ppo", "--help")
    assert (code, err) == (0, "")
    for field in part_options.fields(registry.part_class("agent", "ppo")):
        assert f"  --{field.name.replace('_', '-')} " in out
    plain = " ".join(out.split())
    assert "--gae-lambda 0.95 decay of the weights of longer returns" in plain
    assert "(from 0 to 1)" in plain and "--env." not in out
    code, out, err = small.run_command(capsys, "train", "dqn", "CartPole-v1", "--rewards", "rnd", "--help")
    assert (code, err) == (0, "")
    plain = " ".join(out.split())
    assert "--env.pole-mass 0.1 " in plain or "--env.pole-mass" in plain
    assert "options of --memory uniform, which is used unless another is named --memory.capacity" in plain
    assert "options of --rewards rnd --rewards.weight 0.5" in plain
    code, out, _ = small.run_command(capsys, "train", "CartPole-v1", "--help")
    assert code == 0 and "options of CartPole-v1" in out and "options of ppo" not in out
    code, out, _ = small.run_command(capsys, "train", "ppo", "gymnasium:CartPole-v1", "--help")
    assert code == 0 and "--env.sutton-barto-reward" in out and "--env.parallel" in out
    code, out, _ = small.run_command(capsys, "tune", "sac", "--help")
    assert code == 0 and out.startswith("forage tune sac") and "--initial-temperature" in out


@pytest.mark.parametrize("name", ["rnd", "ppo", "held-noise", "prioritised", "ornstein-uhlenbeck"])
def test_show_says_formula_paper_options_and_example(capsys, name):
    _, out, _ = small.run_command(capsys, "show", name)
    cls = next(registry.load(table[name]) for table in registry.tables().values() if name in table)
    for text in (sys.modules[cls.__module__].__doc__, cls.__doc__):
        assert inspect.cleandoc(text) in out
    assert re.search(r"arXiv|\(\d{4}\)|, \d{4}", out) and "\noptions\n" in out
    assert f"\nexample {cls.example}\n" in out


@pytest.mark.thorough
def test_options_are_read_without_importing_what_has_them():
    """The same names and meanings as from the classes themselves."""
    for table in registry.tables().values():
        for target in table.values():
            found = {field.name: field.help for field in part_options.fields(registry.load(target))}
            assert declared.meanings(target) == found, target


def test_hyphens_and_underscores_are_alike(capsys):
    for spelled in ("pole-mass", "pole_mass"):
        _, words = options.split([f"--env.{spelled}", "2"], set())
        assert words == {"env.pole_mass": "2"}
    _, out, _ = small.run_command(capsys, "show", "CartPole-v1")
    assert "--env.pole-mass " in out and "--env.pole_mass" not in out


def test_help_of_training_and_version(capsys):
    code, out, _ = small.run_command(capsys, "train", "-h")
    assert code == 0
    assert "--checkpoint-seconds" in out
    code, out, _ = small.run_command(capsys, "--version")
    assert code == 0
    assert out.strip().count(".") >= 1


@pytest.mark.parametrize(
    ("text", "number"), [("500k", 500_000), ("5M", 5_000_000), ("1e6", 10**6), ("20_000", 20_000), ("7", 7), ("-3", -3)]
)
def test_whole_numbers(text, number):
    assert options.parse("steps", text, int) == number


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ("yes", bool, True),
        ("False", bool, False),
        ("3e-4", float, 3e-4),
        ("64,32", tuple[int, ...], (64, 32)),
        ("(0.5, 1)", tuple[float, ...], (0.5, 1.0)),
        ("a,b", tuple[str, ...], ("a", "b")),
        ("none", int | None, None),
        ("5", int | None, 5),
        ("tanh", str, "tanh"),
    ],
)
def test_words_by_type(text, wanted, value):
    assert options.parse("name", text, wanted) == value


@pytest.mark.parametrize(
    "text,value",
    [
        ("none", None),
        ("None", None),
        ("true", True),
        ("FALSE", False),
        ("3", 3),
        ("-3", -3),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("4x4", "4x4"),
        ("SF,FG", ["SF", "FG"]),
        ("[SF,FG]", ["SF", "FG"]),
        ("(SF, FG)", ("SF", "FG")),
        ("1,0.5,none,true,x", [1, 0.5, None, True, "x"]),
        ("3,", [3]),
        ("[]", []),
        ("[1, [2, 3]]", [1, [2, 3]]),
        ("(1, 2)", (1, 2)),
        ("{'a': None}", {"a": None}),
        ('{"a": false, "b": 1}', {"a": False, "b": 1}),
        ("'none'", "none"),
        ("'3'", "3"),
        ('"a,b"', "a,b"),
        ("[SF", "[SF"),
        ("a:b/c-v0", "a:b/c-v0"),
        ("", ""),
    ],
)
def test_what_an_option_of_an_environment_means(text, value):
    found = options.guess(text)
    assert found == value and type(found) is type(value)


def test_a_sentence_stays_a_text():
    words = {"env.system": "Be brief, and count to 3", "env.size": "3", "steps": "4"}
    assert environment_options(words) == {"system": "Be brief, and count to 3", "size": 3} and words == {"steps": "4"}


def test_options_are_split_from_words():
    positional, given = options.split(["a", "--x-y", "1", "--z=2", "--quiet", "--no-clip", "b"], {"quiet"})
    assert positional == ["a", "b"]
    assert given == {"x_y": "1", "z": "2", "quiet": True, "clip": "false"}
    _, given = options.split(["--x", "1", "--x=a=2", "--y", "3"], set(), {"x"})
    assert given == {"x": ["1", "a=2"], "y": "3"}
    with pytest.raises(ForageError, match="--y is given twice"):
        options.split(["--y", "1", "--y", "2"], set(), {"x"})
    with pytest.raises(ForageError, match="--x needs a value"):
        options.split(["--x", "--y", "1"], set())


@pytest.mark.thorough
def test_reports_and_tuning(capsys, whole_run, tmp_path):
    code, out, err = small.run_command(capsys, "report", whole_run[0], "--output", tmp_path / "page.html")
    assert (code, err) == (0, "") and (tmp_path / "page.html").read_text().startswith("<!doctype html>")

    tune = ["tune", "ppo", "CartPole-v1", "--over", "learning_rate=0.001:0.01", "--over", "clip=0.1,0.2"]
    tune += ["--steps", "2048", "--trials", "2", "--seeds", "5000,5001", "--json"]
    code, out, err = small.run_command(capsys, *tune, "--directory", tmp_path / "tune", "--tuning-seeds", "0,1")
    result = json.loads(out.splitlines()[-1])
    assert (code, err) == (0, "") and result["seeds"] == [5000, 5001] and len(result["tuned"]) == 2
    code, _, err = small.run_command(capsys, *tune, "--directory", tmp_path / "other", "--tuning-seeds", "1,5000")
    assert code == 2 and "5000 is among both" in err and err.count("\n") == 1
    for words, error in (
        (["report"], "takes one run or more"),
        (["tune", "ppo"], "takes an agent and an environment"),
        (["tune", "ppo", "CartPole-v1", "--ower", "x=1,2"], "Did you mean '--over'"),
    ):
        code, _, err = small.run_command(capsys, *words)
        assert code == 2 and error in err and err.count("\n") == 1
