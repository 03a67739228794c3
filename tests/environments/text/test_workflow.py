"""A caller and a solver: the reward and the reply of each turn, and the order of turns."""

import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments.text import worlds
from forage.environments.text.environment import TextEnvironment
from forage.environments.text.workflow import DIFFER, NOTHING
from forage.environments.text.worlds import Start


def workflow(turns: int = 4, **options):
    return worlds.make_world("addition", ("calculator",), turns, team=0.5, **options)


def test_turns_are_paid_by_hand():
    world = workflow()
    world.begin(Start(3, 0))
    call = world.reference()
    assert call.startswith("<call>calculator: ")
    found = world.reply(call)
    answer = found.text.removeprefix("<result>").removesuffix("</result>")
    assert found[1:3] == (1.5, False)  # computed, and half a point for the team
    assert world.reference() == f"<answer>{answer}</answer>"
    assert world.reply(world.reference())[:5] == ("", 1.5, True, 1.0, 1.0)

    world.begin(Start(3, 0))
    assert world.reply("I do not know")[:3] == (NOTHING, 0.0, False)
    assert world.reference().endswith(f"<answer>{answer}</answer>") and "=" in world.reference()
    assert world.reply(f"<answer>{answer}</answer>")[:3] == (DIFFER, 1.5, False)  # right, and nothing agrees with it
    assert world.reply("<call>calculator: 1 + 1</call>")[:2] == ("<result>2</result>", 1.0)
    assert world.reply("2")[1:5] == (0.0, True, 0.0, 0.0)  # no answer that can be read, and no turn left

    world.begin(Start(3, 0))
    assert world.reply("<call>calculator: 1 +</call>")[1] == 0  # not computed
    world.reply("<answer>7</answer>")
    world.reply("<call>calculator: 3 + 4</call>")
    assert world.reply("<answer>7</answer>")[1:3] == (1.0, True)  # agreed, and wrong
    world.close()


def test_observations_say_whose_turn_it_is():
    environment = TextEnvironment("addition", 2, level=1, tools="calculator", roles=True, turns=4)
    seen = environment.reset(0)
    roles = [seen["role"].tolist()]
    for _ in range(3):
        seen = environment.step(np.stack([seen["reference"][0], seen["reference"][1] * 0])).observation
        roles.append(seen["role"].tolist())
    assert roles == [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert not seen["context"][0].any() and seen["context"][1].any()  # the first is over after two turns
    again = environment.restore(environment.snapshot())
    assert all((again[name] == seen[name]).all() for name in seen)
    step = environment.step(np.zeros_like(seen["reference"])).step
    assert step.terminated.all() and step.info["truth"].tolist() == [1, 0]
    assert step.info["turns"].tolist() == [2, 4]  # the other never overflowed
    environment.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"roles": True}, "env.tools calculator"),
        ({"roles": True, "tools": "calculator", "turns": 3}, "even number"),
        ({"team": 0.5}, "env.roles true"),
        ({"roles": True, "target": "guess"}, "has no roles"),
    ],
)
def test_what_cannot_be_is_one_sentence(options, says):
    with pytest.raises(ForageError, match=says):
        TextEnvironment(options.pop("target", "addition"), 1, **options)
