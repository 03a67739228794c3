"""Settings from a file: a run's own file, or the same words in TOML and YAML, with options over them."""

import dataclasses
import json
import re
import tomllib

import pytest
import small

from forage.config.files import arguments_of, merge_over, read_arguments
from forage.config.resolve import STORED, resolve
from forage.config.settings_file import line_of, write_settings
from forage.core.types import ForageError
from forage.environments import make
from forage.runs import training

small.keep_compiled()

TOML = """
agent = {part = "dqn", learning_rate = 1, "hidden-sizes" = [8]}
environment = {id = "CartPole-v1", wrap = ["time-limit:9"], options = {length = 0.7}}
steps = 96
seeds = [3, 7]
evaluation-episodes = 2

[memory]
part = "prioritised"
capacity = 64
"""


def config_of(arguments):
    """Return the configuration of the setup that arguments make."""
    return resolve(**arguments).config()


def test_what_a_run_writes_makes_the_same_run(tmp_path):
    options = {"agent_options": {"learning_rate": 0.01}, "memory": "prioritised", "wrap": ["time-limit:9"]}
    config = config_of({"agent": "dqn", "environment": "CartPole-v1", "steps": 500, "seeds": [4], **options})
    (tmp_path / "config.json").write_text(json.dumps(config | {"devices": 1, "devices_per_seed": 1, "history": []}))
    assert config_of(read_arguments(tmp_path / "config.json")) == config


def test_toml_and_yaml_say_the_same(tmp_path):
    (tmp_path / "run.toml").write_text(TOML)
    found = read_arguments(tmp_path / "run.toml")
    assert found["agent"].options == {"learning_rate": 1.0, "hidden_sizes": (8,)}
    assert isinstance(found["agent"].options["learning_rate"], float) and not found["agent"].is_complete
    assert found["evaluation_episodes"] == 2 and found["environment_options"] == {"length": 0.7}
    yaml = pytest.importorskip("yaml")
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(tomllib.loads(TOML)))
    assert read_arguments(tmp_path / "run.yaml") == found


def test_options_go_over_a_file(tmp_path, capsys, monkeypatch):
    (tmp_path / "run.toml").write_text(TOML)
    asked = {}
    monkeypatch.setattr(training, "start_run", asked.update)
    words = ["train", "--config", tmp_path / "run.toml", "--quiet"]
    words += ["--learning-rate", "0.5", "--memory.capacity", "48", "--env.gravity", "3", "--seeds", "3,"]
    assert small.run_command(capsys, *words, *small.words(small.REPLAY)) == (0, "", "")
    assert (asked.pop("display"), asked.pop("evaluation_episodes")) == ("quiet", 2)
    config = config_of(asked)
    assert config["agent"]["learning_rate"] == 0.5 and config["agent"]["hidden_sizes"] == [8]
    assert config["memory"]["part"] == "prioritised" and config["memory"]["capacity"] == 48
    assert config["environment"]["options"] == {"length": 0.7, "gravity": 3}
    assert config["seeds"] == [3] and config["steps"] == 96
    # What a run writes names every field, and they give way to options too.
    whole = arguments_of("it", json.loads(json.dumps(config)))
    given = {"agent": "dqn", "agent_options": {"learning_rate": 0.25}, "environment": "Acrobot-v1"}
    changed = merge_over("it", whole, given)
    assert changed["agent"].is_complete and changed["agent"].options["learning_rate"] == 0.25
    assert changed["agent"].build_part().hidden_sizes == (8,)
    assert changed["environment"] == "Acrobot-v1" and "environment_options" not in changed and "wrap" not in changed


@pytest.mark.parametrize(
    "config, sentence",
    [
        ({"stepps": 3}, r"f has 'stepps', which is no setting of a run. Did you mean 'steps' or "),
        ({"steps": True}, r"steps of f is a whole number or a number or a text, not True"),
        ({"agent": 3}, r"agent in f is a name, or a table with `part`, its name; not 3"),
        ({"agent": "ppoo"}, r"Unknown agent 'ppoo'. Did you mean 'ppo'"),
        (
            {"agent": {"part": "ppo", "hidden_sizes": 8}},
            r"hidden_sizes of ppo in f is a list of whole numbers",
        ),
        ({"memory": {"part": "uniform", "size": 8}}, r"uniform has no option 'size'"),
        ({"environment": 3}, r"The environment in f is 3; name one"),
        ({"environment": {"object": "<class Mine>"}}, r"is a Python object, <class Mine>; name one"),
        ({"environment": {"id": "CartPole-v1", "warp": []}}, r"has 'warp'. Did you mean 'wrap'\?"),
    ],
)
def test_what_a_file_cannot_say(config, sentence):
    with pytest.raises(ForageError, match=sentence):
        arguments_of("f", config)


def test_files_that_cannot_be_read(tmp_path):
    for name, text, sentence in (
        ("a.ini", "", r"its name ends with .json, .toml, .yaml or .yml"),
        ("a.json", "{", r"a.json is not JSON: "),
        ("a.toml", "steps", r"a.toml is not TOML: "),
        ("b.json", "[]", r"holds no settings by name"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ForageError, match=sentence):
            read_arguments(tmp_path / name)
    with pytest.raises(ForageError, match=r"gone.json cannot be read: No such file"):
        read_arguments(tmp_path / "gone.json")


def test_another_agent_is_refused(tmp_path, capsys):
    (tmp_path / "run.toml").write_text(TOML)
    code, _, err = small.run_command(capsys, "train", "ppo", "CartPole-v1", "--config", tmp_path / "run.toml")
    assert code == 2 and "has the agent dqn and its parts; leave out ppo, or" in err


SAVED = [
    (
        {
            "agent": "ppo",
            "environment": "CartPole-v1",
            "wrap": ["time-limit:200"],
            "environment_options": {"length": 0.7},
        }
    ),
    ({"agent": "ppo", "environment": "minatar:Breakout", "agent_options": {"target_kl": 0.02}, "seeds": (3,)}),
    ({"agent": "dqn", "environment": "CartPole-v1", "memory": "prioritised", "sweep": {"learning_rate": [1e-5, 1e-3]}}),
    ({"agent": "sac", "environment": "gymnasium:MountainCarContinuous-v0"}),
    ({"agent": "dqn", "environment": "BitFlip-10", "memory": "hindsight"}),
    (
        {
            "agent": "ppo",
            "environment": "CartPole-v1",
            "rewards": "rnd",
            "agent_options": {"learning_rate": "linear:1e-3,0"},
        }
    ),
]


@pytest.mark.parametrize(
    "given",
    [SAVED[2], *(pytest.param(one, marks=pytest.mark.thorough) for one in SAVED[:2] + SAVED[3:])],
    ids=lambda one: f"{one['agent']}-{one['environment']}",
)
def test_settings_that_were_saved_are_the_same_run(given, tmp_path):
    config = resolve(**given)
    write_settings(config, tmp_path / "mine.toml")
    text = (tmp_path / "mine.toml").read_text()
    assert resolve_file(tmp_path / "mine.toml").full_config() == config.full_config()
    for line in text.splitlines():
        assert not line or line.startswith(("#", "[", "id = ", "part = ")) or "  # " in line, line
    (tmp_path / "config.json").write_text(json.dumps(config.full_config()))
    again = resolve_file(tmp_path / "config.json").full_config()
    assert again | {"track": ()} == config.full_config()
    # A value that a person edits, and a line that a person deletes, which takes its default again.
    number = 7 if config.agent.num_envs != 7 else 6
    edited = re.sub(r"^num_envs = \d+", f"num_envs = {number}", text, flags=re.M)
    (tmp_path / "mine.toml").write_text(re.sub(r"^discount = .*\n", "", edited, flags=re.M))
    again = resolve_file(tmp_path / "mine.toml")
    assert again.agent == dataclasses.replace(config.agent, num_envs=number)


def resolve_file(path):
    found = read_arguments(path)
    settings = {name: found.pop(name) for name in list(found) if name in STORED}
    return dataclasses.replace(resolve(**found), **settings)


def test_toml_has_every_kind_of_value():
    values = {
        "a": None,
        "b": True,
        "c": -0.0,
        "d": 1e-05,
        "e": float("inf"),
        "f": 'x"\\\x7f\n',
        "g": [1, [2.5]],
        "h i": {"j": "k"},
    }
    text = "\n".join(line_of(name, value, "meaning") for name, value in values.items())
    assert tomllib.loads(text) == values | {"a": "none"}


def test_settings_are_written_once(tmp_path):
    config = resolve("ppo", "CartPole-v1")
    write_settings(config, tmp_path / "deep" / "mine.toml")
    for path, said in (
        (tmp_path / "deep" / "mine.toml", "is there already"),
        (tmp_path / "mine.yaml", "ends with .toml"),
    ):
        with pytest.raises(ForageError, match=said):
            write_settings(config, path)
    with pytest.raises(ForageError, match="names its environment by an id, and CartPole has none"):
        write_settings(resolve("ppo", make("CartPole-v1")), tmp_path / "object.toml")
