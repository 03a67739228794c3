"""The examples of docs/networks.md fit together: its files are written, and each of its commands makes a setup."""

import re
from pathlib import Path

import jax
import pytest
from tiers import gate_cases

from forage.cli import train
from forage.cli.arguments import FLAGS, LISTS
from forage.config import options
from forage.config.resolve import resolve
from forage.core.schedule import is_scheduled
from forage.runs import training

TEXT = (Path(__file__).parents[2] / "docs" / "networks.md").read_text()
COMMANDS = re.findall(r"^forage train (.+)$", TEXT, re.MULTILINE)
PYTHON = re.findall(r"```python\n(.+?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("command", gate_cases(COMMANDS, COMMANDS[::4]))
def test_command(command, tmp_path, monkeypatch):
    (tmp_path / "my_networks.py").write_text(next(block for block in PYTHON if "class Waves" in block))
    (tmp_path / "my_agents.py").write_text(next(block for block in PYTHON if "class Mine" in block))
    monkeypatch.chdir(tmp_path)
    made = []

    def keep(said):
        made.append(resolve(**{name: value for name, value in said.items() if name != "display"}))

    monkeypatch.setattr(training, "start_run", keep)
    monkeypatch.setattr(training, "use_compilation_cache", lambda: None)
    train.run(*options.split([word.strip('"') for word in command.split()], FLAGS, LISTS))
    learner = made[0].learner()
    jax.eval_shape(lambda: learner.init(jax.random.key(0)))
    assert is_scheduled(learner) == any(
        form in command for form in (":3e-4", "step:", "exponential:", "saw", "warmup:")
    )


def test_the_schedules_in_python():
    block = next(block for block in PYTHON if "agent_options" in block)
    found = {}
    exec(block, found)
    agent = resolve("ppo", "CartPole-v1", agent_options=found["agent_options"]).agent
    assert abs(float(agent.learning_rate(0.5)) - 1.5e-4) < 1e-9
    assert abs(float(agent.entropy_coefficient(0.5)) - 0.005) < 1e-9


def test_every_form_is_on_the_page():
    from forage.core.ranges import FORMS

    assert all(f"`{form}:" in TEXT for form in FORMS)
