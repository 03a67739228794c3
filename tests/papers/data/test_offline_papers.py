"""Agents of papers that learn from a data set: stop and resume, refusals, and the page's commands."""

import re
from pathlib import Path

import pytest
import test_offline as core
from test_offline import SEQUENCES, SMALL, write_file
from tiers import repeat

from forage.cli import entry
from forage.config.resolve import resolve
from forage.core.types import ForageError

PAGE = Path(__file__).parents[3] / "docs" / "offline.md"
CASES = [(agent, "CartPole-v1") for agent in ("f-dvl", "recoil")]
CASES += [(agent, "Pendulum-v1") for agent in ("sac-rnd", "o-dice", "cfpi", "sac-flow", "cqn-as", "sung", "sung-cql")]
CASES += [(agent, "Pendulum-v1") for agent in ("fql", "guided-flows", "ldcq")]
CASES += [(agent, "Pendulum-v1") for agent in ("edac", "trajectory-transformer")]
MORE = {
    "sac-rnd": {"taught_updates": 5, "novelty_hidden": 8},
    "o-dice": {"value_sizes": (8,)},
    "sac-flow": {"value_sizes": (8,), "noise_sizes": (8,), "imitate": True},
    "sung": {"density_hidden": 8},
    "sung-cql": {"density_hidden": 8, "samples": 2},
    "guided-flows": {"horizon": 3, "flow_steps": 2},
}
SKILLS = {"horizon": 3, "followed": 2, "skill_size": 2, "hidden_size": 8, "denoiser_sizes": (8, 4), "batch_size": 4}
SKILLS |= {"diffusion_steps": 4, "candidates": 3, "skill_share": 0.2, "prior_share": 0.1}
PLANS = {"past": 1, "horizon": 2, "beams": 2, "bins": 5}
core.OPTIONS |= {"trajectory-transformer": SEQUENCES | PLANS}
core.OPTIONS |= {agent: SMALL | options for agent, options in MORE.items()} | {"ldcq": SKILLS}
test_resumed_is_as_if_never_stopped = pytest.mark.thorough(repeat(core.test_resumed_is_as_if_never_stopped, CASES))


def test_demonstrations_must_be_named(tmp_path):
    data = write_file(tmp_path / "a.npz", "CartPole-v1")
    with pytest.raises(ForageError, match="ReCOIL imitates demonstrations; name a file"):
        resolve("recoil", "CartPole-v1", seeds=1, data=data).runner()


@pytest.mark.thorough
def test_the_commands_of_the_page_work(tmp_path, monkeypatch, capsys):
    commands = re.findall(r"^forage .+", PAGE.read_text(), re.MULTILINE)
    assert len(commands) >= 6
    monkeypatch.chdir(tmp_path)
    for command in commands:
        words = re.sub(r"--steps \S+", "--steps 64", command.partition("  #")[0]).split()[1:]
        words += ["--seeds", "2"] if words[0] == "train" and "--seeds" not in words else []
        words += ["--learning-starts", "16"] if words[1] in ("sac", "rlpd", "wsrl", "residual-td3", "cal-ql") else []
        assert entry.run(words) == 0
    assert "64 transitions in" in capsys.readouterr().out
