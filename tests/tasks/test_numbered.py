"""Tasks on the host: the numbered problem of each episode, its report, and resuming."""

from typing import Any

import jax
import numpy as np
import pytest

from forage.config.resolve import resolve
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
    return resolve(
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
        ({"tasks": Contexts(("length=0:1",))}, "runs on the host"),
    ],
)
def test_what_cannot_be_is_one_sentence(given, says):
    with pytest.raises(ForageError, match=says):
        setup_of(**given).runner()


def test_groups_get_one_context_on_the_device():
    setup = resolve(
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
