"""Mistakes of users, a file for each journey: one sentence each, exit code 2, and no files left on disk.

All start in one directory with a finished run, files that are no runs, and a user's own code. None may change it.
"""

import json
import re
import shutil

import numpy as np
import pytest
import small

import forage
from forage.core.types import ForageError

small.keep_compiled()

CODE = """
import equinox, gymnasium, numpy as np


class Base(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 0.0, True, False, {}


class Needs(Base):
    def __init__(self, size):
        self.size = size


class NoSpaces(gymnasium.Env):
    pass


class NoneSpace(Base):
    observation_space = None


class ListSpace(Base):
    action_space = [0, 1]


class NoParts(Base):
    action_space = gymnasium.spaces.Dict()


class Open(Base):
    action_space = gymnasium.spaces.Dict(go=gymnasium.spaces.Discrete(2), push=gymnasium.spaces.Box(-np.inf, 1, (2,)))


class Crowded(Base):
    action_space = gymnasium.spaces.Tuple([gymnasium.spaces.MultiBinary(9), gymnasium.spaces.Box(0, 1)])


class OddMask(Open):
    def reset(self, seed=None, options=None):
        return np.zeros(3, np.float32), {"action_mask": {"go": np.ones(3, np.int8), "push": None}}


class OldReset(Base):
    def reset(self, seed=None, options=None):
        return np.zeros(3, np.float32)


class Plain:
    pass


def two(a, b):
    return a


def nothing(x):
    return None


def reward(completions):
    return [0.0] * len(completions)


def words(completions):
    return "good"


def one(completions):
    return [1.0]


def solves(completions, solution):
    return [0.0] * len(completions)


def breaks(completions):
    return {}["right"]


async def waits(completions):
    import asyncio
    await asyncio.sleep(1e6)


value = 3
"""

SETTINGS = {
    "typo.toml": 'agnet = "ppo"\nenvironment = "CartPole-v1"',
    "loose.toml": 'agent = "ppo"\nenvironment = "CartPole-v1"\nlearning_rate = 1e-3',
    "theirs.toml": 'environment = "CartPole-v1"\nagent = {part = "ppo", lr = 1e-3}',
    "lr.toml": 'agent = "ppo"\nenvironment = "CartPole-v1"\nlr = 1e-3',
    "name.toml": 'environment = "CartPole-v1"\nagent = {name = "ppo"}',
    "sb3.json": '{"policy": "MlpPolicy", "n_timesteps": 100000}',
    "bad.toml": "agent = = 3",
    "empty.json": "",
    "empty.toml": "",
    "list.json": "[1]",
    "sizes.json": '{"agent": {"part": "ppo", "hidden_sizes": ["a"]}, "environment": "CartPole-v1"}',
    "size.json": '{"agent": {"part": "ppo", "hidden_sizes": 64}, "environment": "CartPole-v1"}',
    "rate.json": '{"agent": {"part": "ppo", "learning_rate": "1e-3"}, "environment": "CartPole-v1"}',
    "true.json": '{"agent": {"part": "ppo", "learning_rate": true}, "environment": "CartPole-v1"}',
    "half.json": '{"agent": {"part": "ppo", "num_envs": 2.5}, "environment": "CartPole-v1"}',
    "wrap.json": '{"agent": "ppo", "environment": {"id": "CartPole-v1", "wrap": "frame-stack:4"}}',
    "options.json": '{"agent": "ppo", "environment": {"id": "CartPole-v1", "options": [1]}}',
    "sweep.json": '{"agent": "ppo", "environment": "CartPole-v1", "sweep": {"learning_rate": 0.1}}',
    "seeds.json": '{"agent": "ppo", "environment": "CartPole-v1", "seeds": ["a"]}',
    "steps.toml": 'agent = "ppo"\nenvironment = "CartPole-v1"\nsteps = "5kk"',
    "ports.json": '{"agent": "ppo", "environment": "CartPole-v1", "rewards": ["rnd", "icm"]}',
    "opponent.json": '{"agent": "ppo", "environment": "CartPole-v1", "opponent": 3}',
    "study.toml": 'agents = ["ppo"]\nenvironments = ["CartPole-v1"]\nseeds = "many"',
    "pairs.toml": 'agents = ["sac"]\nenvironments = ["CartPole-v1"]',
    "sums.jsonl": '{"prompt": "1 + 1 = ", "answer": "2"}\n{"prompt": "1 + 2 = ", "answer": "3"}\n',
    "bare.jsonl": '{"text": "1 + 1 = 2"}\n',
    "mark.json": '\ufeff{"agnet": "ppo"}',
}


TEXTS = {
    "texts.jsonl": '{"prompt": "a", "completion": "b"}',
    "pairs.jsonl": '{"prompt": "a", "chosen": "b", "rejected": "c"}',
    "prompts.jsonl": '{"prompt": "a"}',
    "odd.jsonl": '{"colour": "red"}',
    "broken.jsonl": '{"text": ',
    "roles.jsonl": '{"messages": [{"role": "robot", "content": "a"}]}',
    "log.csv": "run,x,order,paid\nr,1,a,2\nr,2,b,3\ns,1,a,2\ns,3,b,1",
    "chat.jsonl": '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}',
}
"""Files of recorded text, each with one row, and a log of four."""


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A directory as people have them."""
    place = tmp_path_factory.mktemp("place")
    small.train(place / "run")
    config = json.loads((place / "run" / "config.json").read_text())
    for name, changed in {
        "no_settings": "{}",
        "a_list": "[1, 2]",
        "torn": '{"agent": ',
        "another": '{"model_type": "bert"}',
        "no_part": json.dumps(config | {"agent": config["agent"] | {"part": "pppo"}}),
        "gone": json.dumps(config | {"environment": {"id": "CartPole-v7"}}),
    }.items():
        shutil.copytree(place / "run", place / name)
        (place / name / "config.json").write_text(changed)
    shutil.copytree(place / "run", place / "without")
    shutil.rmtree(place / "without" / "checkpoints")
    shutil.copytree(place / "run", place / "damaged")
    (place / "damaged" / "agent.npz").write_bytes(b"no archive")
    shutil.copytree(place / "run", place / "no_score")
    (place / "no_score" / "evaluation.json").write_text("[]")
    (place / "begun").mkdir()
    for name in ("config.json", "versions.json"):
        shutil.copy(place / "run" / name, place / "begun" / name)
    (place / "empty").mkdir()
    (place / "adapters").mkdir()
    (place / "adapters" / "adapter_config.json").write_text("[]")
    (place / "file.txt").write_text("hello")
    np.savez(place / "other.npz", a=np.zeros(3))
    (place / "bad.npz").write_bytes(b"PK")
    (place / "mine.py").write_text(CODE)
    (place / "fails.py").write_text("import nothere")
    (place / "syntax.py").write_text("def f(:")
    for name, text in {**SETTINGS, **TEXTS}.items():
        (place / name).write_text(text, encoding="utf-8")
    return place


def listing(place):
    found = {path: path.stat() for path in place.rglob("*") if "__pycache__" not in path.parts}
    return {path: (one.st_size, one.st_mtime_ns) for path, one in found.items() if path.is_file()} | dict.fromkeys(
        path for path in found if path.is_dir()
    )


@pytest.fixture
def own_folder(place, monkeypatch):
    """Change to the directory, and check afterwards that it is unchanged."""
    monkeypatch.chdir(place)
    before = listing(place)
    yield place
    assert listing(place) == before


@pytest.fixture
def answer(own_folder, capsys):
    """Type words after `forage`, and hold the answer against a pattern."""

    def check_answer(words, said):
        code, out, err = small.run_command(capsys, *(words.split() if isinstance(words, str) else words))
        assert (code, out) == (2, ""), err
        assert err.count("\n") == 1 and err.rstrip().endswith((".", "?")), err
        assert re.search(said, err), err

    return check_answer


@pytest.fixture
def refuse(own_folder):
    """Return a function that calls Python code and matches the raised error against a pattern."""

    def check_refused(call, said):
        with pytest.raises(ForageError) as caught:
            call()
        text = str(caught.value)
        assert "\n" not in text and text.endswith((".", "?")), text
        assert re.search(said, text), text

    return check_refused


@pytest.fixture
def train(own_folder):
    """Train PPO on CartPole, or otherwise, into a directory that is not there."""
    return lambda **more: forage.train(
        **{"agent": "ppo", "environment": "CartPole-v1", "directory": "new", "display": "quiet"} | more
    )
