"""The record of a run's own code by the user, and the report of a change in it."""

import json
import sys
import types

import pytest
import small

from forage.config.resolve import resolve
from forage.core.loading import load_class
from forage.core.types import ForageError
from forage.runs import training
from forage.runs.provenance import changed_code, file_of, named_files, own_code
from forage.runs.run import Run

small.keep_compiled()
CODE = """
import gymnasium, numpy as np
from lengths import LENGTH

class Line(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 100, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed); self.t = 0; return np.zeros(1, np.float32), {}
    def step(self, action):
        self.t += 1; return np.float32([self.t]), float(action), self.t >= LENGTH, False, {}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "line.py").write_text(CODE)
    (tmp_path / "lengths.py").write_text("LENGTH = 10\n")
    yield tmp_path
    for name in [name for name in sys.modules if name == "lengths" or name.startswith("forage_file_line")]:
        del sys.modules[name]


def test_a_run_knows_the_files_of_ones_own(folder):
    one = resolve("ppo", f"{folder / 'line.py'}:Line", steps=64, seeds=1, agent_options=small.PPO)
    then = {"own": own_code(one)}
    assert set(then["own"]) == {"line.py", "lengths.py"}
    assert own_code(resolve("ppo", "CartPole-v1", steps=64, seeds=1)) == {}
    assert own_code(resolve("ppo", "gymnasium:CartPole-v1", steps=64, seeds=1)) == {}
    assert changed_code(then, one) == changed_code({}, one) == ""
    (folder / "lengths.py").write_text("LENGTH = 20\n")
    assert changed_code(then, one) == "another lengths.py"
    (folder / "line.py").write_text(CODE.replace("float(action)", "-float(action)"))
    assert changed_code(then, one) == "another lengths.py and another line.py"
    # The same class as a Python object: its module is the same file.
    again = resolve("ppo", load_class(f"{folder / 'line.py'}:Line"), steps=64, seeds=1, agent_options=small.PPO)
    assert set(own_code(again)) == {"line.py", "lengths.py"}


def test_what_names_a_file_of_ones_own():
    config = {
        "environment": {"id": "text:/a/b.py:Sums"},
        "agent": {"part": "/c/d.py:Mine", "sizes": [1, {"x": "e.py"}]},
    }
    config |= {"rewards": "gymnasium:CartPole-v1", "memory": ["jax.numpy:tanh", "1e-3:1e-4"]}
    assert list(named_files(config)) == ["/a/b.py", "/c/d.py"]


@pytest.mark.thorough
def test_a_change_between_sittings_is_said(folder, tmp_path, capsys):
    """The file differs on resuming, as in a separate process."""
    name = f"{folder / 'line.py'}:Line"
    run = small.train(tmp_path / "run", environment=name, seeds=[3], sweep=None, steps=32)
    own = json.loads((run.directory / "versions.json").read_text())["own"]
    assert set(own) == {"line.py", "lengths.py"}
    training.evaluate(run.directory, 1)
    assert "another" not in capsys.readouterr().err
    (folder / "line.py").write_text(CODE + "# changed\n")
    training.evaluate(run.directory, 1)
    assert f"Note: {run.directory} was trained with another line.py than the one here" in capsys.readouterr().err
    with pytest.raises(ForageError, match=r"was made with another line\.py, so it would not .* add --anyway"):
        training.resume(run.directory, steps=64, display="quiet")
    training.resume(run.directory, steps=64, display="quiet", anyway=True)
    assert Run(run.directory).history[-1]["versions"] == "another line.py"


def test_links_lead_to_the_file_that_counts(tmp_path):
    """Code installed as a link to one's own counts as one's own, and a link to installed code does not."""
    own, installed = tmp_path / "own", tmp_path / "site-packages"
    for folder in (own, installed):
        folder.mkdir()
        (folder / "code.py").touch()
    (installed / "linked.py").symlink_to(own / "code.py")
    (installed / "package").symlink_to(own)
    (own / "linked.py").symlink_to(installed / "code.py")
    places = installed / "linked.py", installed / "package" / "code.py", own / "linked.py", installed / "code.py"
    found = [file_of(types.SimpleNamespace(__name__="code", __file__=str(place))) for place in places]
    assert found == [(own / "code.py").resolve()] * 2 + [None] * 2
