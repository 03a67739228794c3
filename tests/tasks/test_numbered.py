"""Tasks on the host: the numbered problem of each episode, its report, and resuming."""

import json
from typing import Any

import jax
import numpy as np
import pytest

import forage
from forage.agents.language.grpo import GRPO
from forage.config.setup import make_setup
from forage.core.types import ForageError
from forage.loop.device.loop import DeviceLoop
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer
from forage.starts.groups import Groups
from forage.tasks.contexts import Contexts

SMALL = Architecture(vocabulary=512, width=16, layers=1, heads=2, inner=16, length=256)


def model() -> Transformer:
    return Transformer(jax.random.key(0), SMALL)


def setup_of(tasks: Any, environment: Any = "text:addition", options: Any = None, **more: Any) -> Any:
    agent = {"model": model(), "num_envs": 8, "group_size": 4}
    return make_setup(
        "grpo",
        environment,
        agent_options=agent,
        environment_options={"problems": 20, "level": "0-3"} if options is None else options,
        tasks=tasks,
        steps=64,
        seeds=[0],
        **more,
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tasks": "greso", "options": {"problems": 0}}, "has none; use text:addition or the like.*problems 1000"),
        ({"tasks": "greso", "environment": "gymnasium:CartPole-v1", "options": {}}, "writes text|CartPole.*has none"),
        ({"tasks": Contexts(("length=0:1",))}, "runs on the host"),
        ({"tasks": "rising", "options": {"problems": 20}}, "of one level"),
        ({"tasks": "adaptive-difficulty", "options": {"problems": 20}}, "equally difficult"),
        ({"tasks": "hints"}, "up to 0.75 of a solution, and text:addition at most 0;.*--env.hints 0.75"),
        ({"tasks": "seele", "options": {"problems": 20, "hints": 0.5}}, "at most 0.5"),
    ],
)
def test_what_cannot_be_is_one_sentence(given, says):
    with pytest.raises(ForageError, match=says):
        setup_of(**given).runner()


def test_groups_get_one_context_on_the_device():
    setup = make_setup(
        "reinforce",
        "CartPole-v1",
        steps=1000,
        seeds=[0],
        agent_options={"num_envs": 8, "rollout_length": 500, "hidden_sizes": (8,), "baseline": "group"},
        starts=Groups(4),
        tasks=Contexts(("length=0.25:1.0",)),
    )
    loop: DeviceLoop = setup.loop()
    lengths = np.asarray(jax.jit(loop.init)(jax.random.key(0)).actors.at.task.length)
    assert len(set(lengths[:4])) == len(set(lengths[4:])) == 1 and lengths[0] != lengths[4]


@pytest.mark.thorough
def test_a_resumed_run_chooses_as_one_that_never_stopped(tmp_path):
    agent = GRPO(model=model(), rollout_length=1, num_envs=8, group_size=4)
    options = {"problems": 12, "level": "0-3", "hints": 0.75}
    given: dict[str, Any] = {"agent": agent, "environment": "text:addition", "seeds": [1], "display": "quiet"}
    given |= {"environment_options": options, "tasks": "hints"}
    whole = forage.train(**given, steps=48, directory=tmp_path / "whole")
    forage.train(**given, steps=24, directory=tmp_path / "parts")
    parts = forage.resume(tmp_path / "parts", steps=48, agent=agent, display="quiet")
    assert whole is not None and parts is not None
    one, two = (np.load(sorted((tmp_path / name / "checkpoints").glob("*.npz"))[-1]) for name in ("whole", "parts"))
    names = json.loads(one["names"].tobytes())
    assert one[f"leaf{names.index('[0].starts.tasks.part.owed')}"].any()  # what nobody solved comes again
    assert all(np.array_equal(one[leaf], two[leaf]) for leaf in one if leaf != "header")
